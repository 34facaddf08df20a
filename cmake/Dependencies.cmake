# Everything here is a package of Debian's main archive; scripts/deps installs them.
find_package(Threads REQUIRED)
find_package(fmt 9 CONFIG REQUIRED)
find_package(CLI11 2.1 CONFIG REQUIRED)
find_package(tomlplusplus 3 CONFIG REQUIRED)
find_package(libssh 0.10 CONFIG REQUIRED)
find_package(nlohmann_json 3.11 CONFIG REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(BOOST_INCLUDE_DIR boost/beast.hpp REQUIRED)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h REQUIRED)
find_path(ZLIB_INCLUDE_DIR zlib.h REQUIRED)
find_path(MINIZIP_INCLUDE_DIR minizip/unzip.h REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_path(SODIUM_INCLUDE_DIR sodium.h REQUIRED)
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

# Linked by name, so that -static picks the archive and a dynamic link the shared library, but for a program with the
# property PADDLE_ARCHIVES, which is dynamic for the sake of glibc alone.
foreach(name crypto ssl sodium z)
  set(${name}_name $<IF:$<BOOL:$<TARGET_PROPERTY:PADDLE_ARCHIVES>>,-l:lib${name}.a,-l${name}>)
endforeach()
add_library(crypto_library INTERFACE)
target_link_libraries(crypto_library INTERFACE ${crypto_name})
add_library(tls_library INTERFACE)
target_link_libraries(tls_library INTERFACE ${ssl_name} crypto_library)
add_library(sodium_library INTERFACE)
target_link_libraries(sodium_library INTERFACE ${sodium_name})
# paddlectl is linked dynamically, so that it finds users and host names as its machine does, and takes part in updates of
# libssh and OpenSSL. These two it carries: protobuf's library has another name in every release.
if(PADDLE_STATIC)
  set(protobuf_name -l:libprotobuf-lite.a)
  set(zstd_name -l:libzstd.a)
  set(minizip_name -l:libminizip.a)
else()
  set(protobuf_name -lprotobuf-lite)
  set(zstd_name -lzstd)
  set(minizip_name -lminizip)
endif()
add_library(protobuf_lite INTERFACE)
target_link_libraries(protobuf_lite INTERFACE ${protobuf_name} Threads::Threads)
target_include_directories(protobuf_lite SYSTEM INTERFACE ${Protobuf_INCLUDE_DIRS})
add_library(decompression INTERFACE)
target_link_libraries(decompression INTERFACE ${minizip_name} ${z_name} ${zstd_name})
add_library(openblas INTERFACE)
target_link_libraries(openblas INTERFACE ${OPENBLAS_ARCHIVE} -lm Threads::Threads)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_HEADERS})

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
