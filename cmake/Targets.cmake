include(CheckLinkerFlag)

# The compiler spends more time on headers than on sources, so the sources of a folder are compiled
# as one. A library of 70 files in 19 pieces took five times as long.
function(paddle_compile_folders_whole name)
  if(NOT PADDLE_UNITY)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(REMOVE_FILENAME folder)
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# paddle_library(name [SOURCES ...] [EXCEPT regex] LINK ...): the library of a folder: SOURCES, or else
# every .cc file in and below it, except main.cc and those whose names begin with EXCEPT, which belong
# to another target.
add_library(paddle_options INTERFACE)
target_link_libraries(paddle_options INTERFACE standard_library)
if(PADDLE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # If sources are compiled as one, GCC takes all but the first of them for headers.
  target_compile_options(paddle_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
set(warnings -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual)
# Not with a later compiler than that of continuous integration: it has more warnings, and must
# still build the tests.
if(PADDLE_WERROR AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND warnings -Werror)
endif()
target_compile_options(paddle_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
target_include_directories(paddle_options INTERFACE ${PROJECT_SOURCE_DIR})

function(paddle_library name)
  cmake_parse_arguments(ARG "" "EXCEPT" "SOURCES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  list(FILTER sources EXCLUDE REGEX "^main\\.cc$")
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "^${ARG_EXCEPT}")
  endif()
  if(ARG_SOURCES)
    set(sources ${ARG_SOURCES})
  endif()
  add_library(${name} STATIC ${sources})
  paddle_compile_folders_whole(${name})
  target_link_libraries(${name} PUBLIC paddle_options ${ARG_LINK})
endfunction()

# Leaves out of a static program what it does not use, and packs its relocations, which glibc knows
# since 2.36.
set(smaller -Wl,--gc-sections)
check_linker_flag(CXX -Wl,-z,pack-relative-relocs LINKER_PACKS_RELOCATIONS)
if(LINKER_PACKS_RELOCATIONS AND PADDLE_HARDENED)
  list(APPEND smaller -Wl,-z,pack-relative-relocs)
endif()

# A program that is pushed to nodes: self-contained unless PADDLE_STATIC is off (sanitizers).
function(paddle_node_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE paddle_options ${ARG_LINK})
  if(PADDLE_STATIC)
    set_target_properties(${name} PROPERTIES PADDLE_ARCHIVES ON PADDLE_CARRIES_LIBC ON)
    target_link_options(${name} PRIVATE $<IF:$<BOOL:${PADDLE_HARDENED}>,-static-pie,-static> ${smaller})
  endif()
endfunction()

# paddle_test(name LABEL unit TIMEOUT seconds SOURCES ... LINK ...): a GoogleTest program. TIMEOUT
# is the time that a test may need if two cores run eight tests of whole programs at a time, which
# mostly wait; any other test takes the place of two of them. A test is ended after twice that time,
# which allows for slow machines.
function(paddle_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  paddle_compile_folders_whole(${name})
  # The code of a test itself runs once, except in the simulator and the fuzzers, so it is optimized
  # a little: loops over bytes are ten times as fast with -Og, which takes no longer to compile. The
  # libraries under test are compiled as users run them. Tests of whole programs have no such loops.
  if(ARG_LABEL STREQUAL unit)
    # GCC is wrong about some of what it finds by following values with -Og.
    set(guesses -Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-Og>
                           "$<$<CXX_COMPILER_ID:GNU>:${guesses}>")
  elseif(ARG_LABEL STREQUAL e2e)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0> -U_FORTIFY_SOURCE)
  endif()
  target_link_libraries(${name} PRIVATE paddle_options ${ARG_LINK} GTest::gtest GTest::gtest_main)
  math(EXPR limit "2 * ${ARG_TIMEOUT}")
  set(places 2)
  if(ARG_LABEL STREQUAL e2e)
    set(places 1)
  endif()
  # The tests with the longest limits start first.
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${limit} COST ${ARG_TIMEOUT}
                                  PROCESSORS ${places})
endfunction()

# unit_test(name TIMEOUT seconds EXCEPT regex ROOMS ... LINK ...): one program of the tests in these
# folders below tests/unit, without those whose names begin with EXCEPT, which are in another program.
function(unit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;EXCEPT" "ROOMS;LINK" ${ARGN})
  list(TRANSFORM ARG_ROOMS APPEND /*.cc)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ARG_ROOMS})
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "/${ARG_EXCEPT}")
  endif()
  paddle_test(${name} LABEL unit TIMEOUT ${ARG_TIMEOUT} SOURCES ${sources} LINK ${ARG_LINK})
endfunction()
