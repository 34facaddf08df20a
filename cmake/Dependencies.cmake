# Everything here is a package of Debian's main archive; scripts/deps installs them.
find_package(Threads REQUIRED)
find_package(fmt 9 CONFIG REQUIRED)
find_package(CLI11 2.1 CONFIG REQUIRED)
find_package(tomlplusplus 3 CONFIG REQUIRED)
find_package(libssh 0.10 CONFIG REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(CUDAToolkit QUIET)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_library(OPENBLAS_LIBRARY openblas REQUIRED)
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-serial REQUIRED)

# Linked by name, so that -static picks the archive and a dynamic link the shared library.
add_library(crypto_library INTERFACE)
target_link_libraries(crypto_library INTERFACE -lcrypto)
add_library(protobuf_lite INTERFACE)
target_link_libraries(protobuf_lite INTERFACE -lprotobuf-lite Threads::Threads)
target_include_directories(protobuf_lite SYSTEM INTERFACE ${Protobuf_INCLUDE_DIRS})
add_library(openblas INTERFACE)
target_link_libraries(openblas INTERFACE -lopenblas -lm)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIR})

# Debian's fmt and toml++ come as shared libraries only; header-only is what a static program can carry.
add_library(toml_header INTERFACE)
target_compile_definitions(toml_header INTERFACE TOML_HEADER_ONLY=1)

add_library(asio INTERFACE)
target_include_directories(asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
target_compile_definitions(asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED
                           $<$<BOOL:${PADDLE_TSAN}>:ASIO_DISABLE_FENCED_BLOCK>)
target_link_libraries(asio INTERFACE Threads::Threads)
