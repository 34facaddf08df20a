// `paddle` on NVIDIA's GPUs: a program of its own, as the other is static and can load no library.
#include <sys/random.h>

#include <csignal>
#include <cstdint>

#include "base/check.h"
#include "engine/commands/command.h"
#include "engine/device/cuda/cuda_driver.h"
#include "engine/memory/allocator.h"

extern char** environ;  // NOLINT: POSIX's name

// For libstdc++'s random_device, which would have it of glibc 2.36.
extern "C" std::uint32_t arc4random() {
  std::uint32_t value = 0;
  PADDLE_CHECK(::getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  paddle::keep_freed_memory();
  paddle::device::CudaDriver driver;
  paddle::device::set_driver(&driver);
  return paddle::commands::run_program({argv + 1, argv + argc}, environ);
}
