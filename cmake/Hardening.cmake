# Protections of the compiler and the linker against memory errors, in every program; off for
# sanitizers, which check the same places. A static program has no CET note if the distribution's
# archives that it links have none.
option(PADDLE_HARDENED "Position-independent programs, stack protector, FORTIFY, CET, checked standard library" ON)

if(PADDLE_HARDENED)
  set(hardened -fPIE -fstack-protector-strong -fstack-clash-protection -D_GLIBCXX_ASSERTIONS)
  # Without optimization FORTIFY checks nothing and warns.
  list(APPEND hardened $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND hardened -fcf-protection)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND hardened -mbranch-protection=standard)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${hardened}>")
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# paddle_innermost(NAME [SOURCES ...]): turns off checks in a target of innermost loops, or in these
# sources of it, where a check in every call for a row costs 3 to 20 %. Their callers check sizes once
# for many rows.
function(paddle_innermost name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  if(NOT PADDLE_HARDENED)
    return()
  endif()
  set(options -fno-stack-protector -U_GLIBCXX_ASSERTIONS)
  if(ARG_SOURCES)
    set_property(SOURCE ${ARG_SOURCES} APPEND PROPERTY COMPILE_OPTIONS ${options})
  else()
    target_compile_options(${name} PRIVATE ${options})
  endif()
endfunction()
