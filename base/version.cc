#include "base/version.h"

#include <link.h>

#include <filesystem>

#include <fmt/format.h>

namespace paddle {
namespace {

// Called by the dynamic linker for each file that it has loaded. The program itself and the
// kernel's vDSO have no absolute path.
int add_shared(dl_phdr_info* loaded, std::size_t, void* lines) {
  const std::filesystem::path file = loaded->dlpi_name;
  if (!file.is_absolute()) return 0;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(file, error);
  *static_cast<std::string*>(lines) += fmt::format(
      "{} of this machine: {}\n", file.filename().string(), (error ? file : real).string());
  return 0;
}

}  // namespace

std::string linked_libraries() {
  const char* const volatile packages = paddle_linked_libraries;
  std::string lines = packages != nullptr ? packages : "";
  ::dl_iterate_phdr(add_shared, &lines);
  return lines;
}

}  // namespace paddle
