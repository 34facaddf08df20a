// `paddle-gpu`: `paddle` with NVIDIA's GPUs. It is a separate program, because `paddle` is linked
// statically and cannot load a library.
#include <sys/random.h>

#include <csignal>
#include <cstdint>

#include "base/check.h"
#include "engine/commands/command.h"
#include "engine/gpu/cuda_driver.h"
#include "engine/gpu/cuda_nccl.h"
#include "engine/math/allocator.h"
#include "engine/math/gemm.h"

extern char** environ;  // NOLINT: POSIX's name

// For libstdc++'s random_device, which would otherwise need the function of glibc 2.36.
extern "C" std::uint32_t arc4random() {
  std::uint32_t value = 0;
  PADDLE_CHECK(::getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  paddle::keep_freed_memory();
  paddle::kernels::forget_openblas_variables();
  paddle::device::set_nccl_environment();
  paddle::device::CudaDriver driver;
  paddle::device::set_driver(&driver);
  return paddle::commands::run_program({argv + 1, argv + argc}, environ);
}
