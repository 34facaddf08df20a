// The engine: parameter servers and trainers in one self-contained program.
#include <csignal>

#include "engine/commands/command.h"
#include "engine/math/allocator.h"
#include "engine/math/gemm.h"

extern char** environ;  // NOLINT: POSIX's name

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  paddle::keep_freed_memory();
  paddle::kernels::forget_openblas_variables();
  return paddle::commands::run_program({argv + 1, argv + argc}, environ);
}
