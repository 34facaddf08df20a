// `paddle version`: the version and how this program was built, one option per line as in v0.10.
#include "base/version.h"

#include <cblas.h>

#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "engine/commands/command.h"
#include "engine/gpu/device.h"

namespace paddle::commands {
namespace {

const char* on_off(bool value) {
  return value ? "ON" : "OFF";
}

bool cpu_has_avx() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx") != 0;
#else
  return false;
#endif
}

const char* sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return "address";
#elif defined(__SANITIZE_THREAD__)
  return "thread";
#else
  return "none";
#endif
}

std::string build_options() {
  return fmt::format(
      "paddlectl engine {}, compiled with\n"
      "    with_gpu: {}\n"
      "    with_double: OFF\n"
      "    with_avx: {}\n"
      "    static: {}\n"
      "    compiler: {} {}\n"
      "    blas: {}, kernels for {}, threads of its own: {}\n"
      "    sanitizer: {}\n",
      kProgramVersion, on_off(device::driver() != nullptr), on_off(cpu_has_avx()),
      on_off(PADDLE_IS_STATIC != 0 && device::driver() == nullptr), PADDLE_COMPILER, __VERSION__,
      openblas_get_config(), openblas_get_corename(), openblas_get_num_threads() - 1, sanitizer());
}

// The driver and libraries that GPUs are used through.
std::string gpu_lines() {
  if (device::driver() == nullptr) return "";
  std::istringstream lines(device::driver()->describe());
  std::string text;
  for (std::string line; std::getline(lines, line);) text += fmt::format("    gpu: {}\n", line);
  return text;
}

std::function<Status()> declare_version(FlagSet& flags) {
  const auto libraries = std::make_shared<bool>(false);
  flags.boolean("libraries", "print each library that it contains, with its version", *libraries);
  return [libraries]() -> Status {
    std::cout << (*libraries ? linked_libraries() : build_options() + gpu_lines());
    return {};
  };
}

}  // namespace

const Command kVersionCommand{"version", "this program's version and how it was built",
                              "usage: paddle version [--libraries]\n", declare_version};

}  // namespace paddle::commands
