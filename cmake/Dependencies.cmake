include(${CMAKE_CURRENT_LIST_DIR}/LinkedLibraries.cmake)

# Everything here is a package of Debian's main archive; scripts/deps installs them.
find_package(Threads REQUIRED)
find_package(fmt 9 CONFIG REQUIRED)
find_package(CLI11 2.1 CONFIG REQUIRED)
find_package(tomlplusplus 3 CONFIG REQUIRED)
find_package(libssh 0.10 CONFIG REQUIRED)
find_package(nlohmann_json 3.11 CONFIG REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(PkgConfig REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(BOOST_INCLUDE_DIR boost/beast.hpp REQUIRED)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h REQUIRED)
# Debian's OpenBLAS for serial programs gives two threads one buffer, so that now and then a product of theirs is wrong.
# The archive in every program: the shared library starts threads of its own before anybody can forbid it.
find_library(OPENBLAS_ARCHIVE libopenblas.a PATH_SUFFIXES openblas-pthread REQUIRED)
find_path(OPENBLAS_HEADERS cblas.h PATH_SUFFIXES openblas-pthread openblas REQUIRED)
try_run(OPENBLAS_IS_SERIAL OPENBLAS_COMPILES ${PROJECT_BINARY_DIR}/openblas ${CMAKE_CURRENT_LIST_DIR}/openblas_threads.cc
        CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${OPENBLAS_HEADERS} LINK_LIBRARIES ${OPENBLAS_ARCHIVE} -lm Threads::Threads)
if(NOT OPENBLAS_COMPILES OR OPENBLAS_IS_SERIAL)
  foreach(name ARCHIVE HEADERS COMPILES IS_SERIAL)
    unset(OPENBLAS_${name} CACHE)
  endforeach()
  message(FATAL_ERROR "${OPENBLAS_ARCHIVE} is built for programs of one thread. Install libopenblas-pthread-dev: scripts/deps")
endif()

# paddle_package(NAME PACKAGE VERSION [CARRIED]): an interface library of a package that pkg-config knows. pkg-config alone
# says which libraries it takes: the libcrypto.a of one release needs nothing else, that of the next one zlib and zstd.
#   - A program with the property PADDLE_ARCHIVES takes archives, also those that the package needs in turn: one that is
#     static, or dynamic for the sake of glibc alone.
#   - Any other takes shared libraries, but the archive of a package that is CARRIED.
function(paddle_package name package version)
  cmake_parse_arguments(ARG "CARRIED" "" "" ${ARGN})
  pkg_check_modules(${name} REQUIRED QUIET ${package}>=${version})
  set(archives "")
  foreach(library ${${name}_STATIC_LIBRARIES})
    if(NOT library MATCHES "^(dl|m|pthread|rt)$")  # glibc's own
      list(APPEND archives -l:lib${library}.a)
    endif()
  endforeach()
  set(shared ${${name}_LINK_LIBRARIES})
  if(ARG_CARRIED AND PADDLE_STATIC)
    set(shared ${archives})
  endif()
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE "$<IF:$<BOOL:$<TARGET_PROPERTY:PADDLE_ARCHIVES>>,${archives},${shared}>" Threads::Threads)
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIRS})
endfunction()

# paddlectl is linked dynamically, so that it finds users and host names as its machine does, and takes part in updates of
# libssh and OpenSSL. It carries protobuf, whose library has another name in every release, and what unpacks files.
paddle_package(crypto_library libcrypto 3)
paddle_package(tls_library libssl 3)
paddle_package(sodium_library libsodium 1.0.18)
paddle_package(protobuf_lite protobuf-lite 3.21 CARRIED)
paddle_package(minizip_library minizip 1.2 CARRIED)
paddle_package(zlib_library zlib 1.2 CARRIED)
paddle_package(zstd_library libzstd 1.5 CARRIED)
paddle_package(lzma_library liblzma 5.2 CARRIED)
# Debian 12 has no file of pkg-config for bzip2, which needs no other library.
find_path(BZIP2_INCLUDE_DIR bzlib.h REQUIRED)
add_library(bzip2_library INTERFACE)
target_link_libraries(bzip2_library INTERFACE
                      $<IF:$<OR:$<BOOL:${PADDLE_STATIC}>,$<BOOL:$<TARGET_PROPERTY:PADDLE_ARCHIVES>>>,-l:libbz2.a,-lbz2>)
add_library(decompression INTERFACE)
target_link_libraries(decompression INTERFACE minizip_library zlib_library zstd_library bzip2_library lzma_library)
add_library(openblas INTERFACE)
target_link_libraries(openblas INTERFACE ${OPENBLAS_ARCHIVE} -lm Threads::Threads)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_HEADERS})

add_library(ssh_library INTERFACE)
target_link_libraries(ssh_library INTERFACE ssh)

# Debian's fmt and toml++ come as shared libraries only, which a static program cannot carry. fmt is compiled
# once (header-only would compile its core in every file, and double the build); toml++ has one user.
if(fmt_VERSION VERSION_LESS 10)
  add_library(fmt_library STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_library.cc)
  target_compile_features(fmt_library PUBLIC cxx_std_20)
  target_include_directories(fmt_library SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  add_library(fmt_library INTERFACE)
  target_link_libraries(fmt_library INTERFACE fmt::fmt-header-only)
endif()
add_library(toml_header INTERFACE)
target_compile_definitions(toml_header INTERFACE TOML_HEADER_ONLY=1)

# Of Boost only headers: Beast and the Asio it is written for, beside the standalone one below.
add_library(boost_headers INTERFACE)
target_include_directories(boost_headers SYSTEM INTERFACE ${BOOST_INCLUDE_DIR})
target_compile_definitions(boost_headers INTERFACE BOOST_ALL_NO_LIB
                           $<$<BOOL:${PADDLE_TSAN}>:BOOST_ASIO_DISABLE_FENCED_BLOCK>)
target_link_libraries(boost_headers INTERFACE Threads::Threads)

# The engine's records are read with it; Debian has simdjson as a shared library only.
add_library(rapidjson_headers INTERFACE)
target_include_directories(rapidjson_headers SYSTEM INTERFACE ${RAPIDJSON_INCLUDE_DIR})

add_library(asio INTERFACE)
target_include_directories(asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
# Aligned allocation is said aloud: Asio would look at which headers came before it, and frees with free() in one file what
# another took from operator new.
target_compile_definitions(asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED
                           ASIO_HAS_STD_ALIGNED_ALLOC=1
                           $<$<BOOL:${PADDLE_TSAN}>:ASIO_DISABLE_FENCED_BLOCK>)
target_link_libraries(asio INTERFACE Threads::Threads)

add_library(standard_library INTERFACE)

# The packages that all these come from.
from_package(Threads::Threads libc6-dev)
from_package(crypto_library libssl-dev)
from_package(tls_library libssl-dev)
from_package(sodium_library libsodium-dev)
from_package(protobuf_lite libprotobuf-dev)
from_package(minizip_library libminizip-dev)
from_package(zlib_library zlib1g-dev)
from_package(zstd_library libzstd-dev)
from_package(bzip2_library libbz2-dev)
from_package(lzma_library liblzma-dev)
from_package(openblas libopenblas-pthread-dev)
from_package(fmt_library libfmt-dev)
from_package(toml_header libtomlplusplus-dev)
from_package(boost_headers libboost-dev)
from_package(rapidjson_headers rapidjson-dev)
from_package(asio libasio-dev)
from_package(ssh_library libssh-dev)
from_package(CLI11::CLI11 libcli11-dev)
from_package(nlohmann_json::nlohmann_json nlohmann-json3-dev)
string(REGEX MATCH "^[0-9]+" gcc_version ${CMAKE_CXX_COMPILER_VERSION})
from_package(standard_library libstdc++-${gcc_version}-dev)
