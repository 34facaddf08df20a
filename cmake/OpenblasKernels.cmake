# Debian's OpenBLAS selects its kernels by the CPU when a program starts. A static program therefore
# contains every kernel for every CPU: 25 MB. The engine multiplies float32 matrices only
# (engine/math/gemm.cc). All other kernels become one function that aborts, and 2 MB are left. The
# products, their bits and their speed are those of the whole library on every CPU.

# openblas_library(NAME ARCHIVE HEADERS): makes the library NAME of what the engine uses of ARCHIVE.
function(openblas_library name archive headers)
  # The members setparam_<CPU>.o are tables of kernels. The kernels of float32 products, and of the
  # vectors that these products use, stay.
  set(absent_kernels [[
    BEGIN {
      print "#include <cstdio>\n#include <cstdlib>\n"
      print "extern \"C\" void paddle_absent_kernel() {"
      print "  std::fputs(\"OpenBLAS: this program does not contain this kernel (cmake/OpenblasKernels.cmake)\\n\", stderr);"
      print "  std::abort();\n}\n\nasm(R\"("
    }
    /^setparam_.*:$/ { in_table = 1; next }
    /:$/ { in_table = 0 }
    in_table && $1 == "U" && $2 ~ /_[A-Z0-9_]+$/ && $2 !~ /^(_|s(gemm|gemv|dot|axpy|scal|copy)_)/ && !seen[$2]++ {
      print ".globl " $2 "\n.set " $2 ", paddle_absent_kernel"
    }
    END { print ")\");" }]])
  set(source ${PROJECT_BINARY_DIR}/openblas/absent_kernels.cc)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/openblas)
  execute_process(COMMAND ${CMAKE_NM} ${archive} COMMAND awk "${absent_kernels}" OUTPUT_FILE ${source} ERROR_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archive})
  add_library(${name} STATIC ${source})
  target_link_libraries(${name} PUBLIC ${archive} -lm Threads::Threads)
  target_include_directories(${name} SYSTEM PUBLIC ${headers})
  # The linker takes a kernel from ARCHIVE only if no earlier object defines it.
  target_link_options(${name} INTERFACE -Wl,-u,paddle_absent_kernel)
endfunction()
