include(${CMAKE_CURRENT_LIST_DIR}/LinkedLibraries.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/OpenblasKernels.cmake)

# Everything here is a package of Debian's main archive; scripts/deps installs them.
find_package(Threads REQUIRED)
find_package(fmt 9 CONFIG REQUIRED)
find_package(CLI11 2.1 CONFIG REQUIRED)
find_package(tomlplusplus 3 CONFIG REQUIRED)
find_package(libssh 0.10 CONFIG REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(PkgConfig REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(BOOST_INCLUDE_DIR boost/beast.hpp REQUIRED)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h REQUIRED)
# Debian's serial OpenBLAS gives two threads the same buffer, so that some of their products are
# wrong; the pthread variant does not. Every program links the archive, because the shared library
# starts its own threads before a program can prevent that.
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

# paddle_package(NAME PACKAGE VERSION [CARRIED]): makes an interface library of a package that
# pkg-config knows. pkg-config names the libraries to link, because they differ by release: the
# libcrypto.a of one release needs no other library, that of the next one needs zlib and zstd.
#   - A program with the property PADDLE_ARCHIVES links archives, also those that the package needs
#     in turn. Such a program is static, or dynamic only because of glibc.
#   - Any other program links shared libraries, but the archive of a package that is CARRIED.
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

# paddlectl is linked dynamically, so that it looks up users and host names as its machine does, and
# uses the machine's updates of libssh and OpenSSL. It contains protobuf, whose shared library has
# another name in every release, and the libraries that decompress files.
paddle_package(crypto_library libcrypto 3)
paddle_package(tls_library libssl 3)
paddle_package(sodium_library libsodium 1.0.18)
paddle_package(protobuf_lite protobuf-lite 3.21 CARRIED)
paddle_package(minizip_library minizip 1.2 CARRIED)
paddle_package(zlib_library zlib 1.2 CARRIED)
paddle_package(zstd_library libzstd 1.5 CARRIED)
paddle_package(lzma_library liblzma 5.2 CARRIED)
# Debian 12 has no pkg-config file for bzip2, which needs no other library.
find_path(BZIP2_INCLUDE_DIR bzlib.h REQUIRED)
add_library(bzip2_library INTERFACE)
target_link_libraries(bzip2_library INTERFACE
                      $<IF:$<OR:$<BOOL:${PADDLE_STATIC}>,$<BOOL:$<TARGET_PROPERTY:PADDLE_ARCHIVES>>>,-l:libbz2.a,-lbz2>)
add_library(decompression INTERFACE)
target_link_libraries(decompression INTERFACE minizip_library zlib_library zstd_library bzip2_library lzma_library)
openblas_library(openblas ${OPENBLAS_ARCHIVE} ${OPENBLAS_HEADERS})

add_library(ssh_library INTERFACE)
target_link_libraries(ssh_library INTERFACE ssh)

# Debian has fmt and toml++ as shared libraries only, which a static program cannot contain. fmt is
# compiled once (header-only would compile its core in every file, and double the build); toml++ has
# one user.
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

# Boost is used for its headers only: Beast, and Boost.Asio, which Beast needs beside the standalone
# Asio below.
add_library(boost_headers INTERFACE)
target_include_directories(boost_headers SYSTEM INTERFACE ${BOOST_INCLUDE_DIR})
target_compile_definitions(boost_headers INTERFACE BOOST_ALL_NO_LIB
                           $<$<BOOL:${PADDLE_TSAN}>:BOOST_ASIO_DISABLE_FENCED_BLOCK>)
target_link_libraries(boost_headers INTERFACE Threads::Threads)

# RapidJSON parses JSON for base/json_reader.cc. Debian has simdjson as a shared library only.
add_library(rapidjson_headers INTERFACE)
target_include_directories(rapidjson_headers SYSTEM INTERFACE ${RAPIDJSON_INCLUDE_DIR})

add_library(asio INTERFACE)
target_include_directories(asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
# Aligned allocation is set explicitly: otherwise Asio decides by the headers that are included
# before it, and one file could pass to free() what another file got from operator new.
target_compile_definitions(asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED
                           ASIO_HAS_STD_ALIGNED_ALLOC=1
                           $<$<BOOL:${PADDLE_TSAN}>:ASIO_DISABLE_FENCED_BLOCK>)
target_link_libraries(asio INTERFACE Threads::Threads)

add_library(standard_library INTERFACE)

# The Debian packages of these libraries. A program without the property PADDLE_ARCHIVES shares those
# of paddle_package() that are not CARRIED, libssh and the compiler's with its machine.
string(REGEX MATCH "^[0-9]+" gcc_version ${CMAKE_CXX_COMPILER_VERSION})
from_package(Threads::Threads libc6-dev CARRIED_IF PADDLE_CARRIES_LIBC)
from_package(standard_library libstdc++-${gcc_version}-dev libgcc-${gcc_version}-dev CARRIED_IF PADDLE_ARCHIVES)
from_package(crypto_library libssl-dev CARRIED_IF PADDLE_ARCHIVES)
from_package(tls_library libssl-dev CARRIED_IF PADDLE_ARCHIVES)
from_package(sodium_library libsodium-dev CARRIED_IF PADDLE_ARCHIVES)
from_package(ssh_library libssh-dev CARRIED_IF PADDLE_ARCHIVES)
if(NOT PADDLE_STATIC)
  set(shared CARRIED_IF PADDLE_ARCHIVES)
endif()
from_package(protobuf_lite libprotobuf-dev ${shared})
from_package(minizip_library libminizip-dev ${shared})
from_package(zlib_library zlib1g-dev ${shared})
from_package(zstd_library libzstd-dev ${shared})
from_package(bzip2_library libbz2-dev ${shared})
from_package(lzma_library liblzma-dev ${shared})
from_package(openblas libopenblas-pthread-dev)
from_package(fmt_library libfmt-dev)
from_package(toml_header libtomlplusplus-dev)
from_package(boost_headers libboost-dev)
from_package(rapidjson_headers rapidjson-dev)
from_package(asio libasio-dev)
from_package(CLI11::CLI11 libcli11-dev)
