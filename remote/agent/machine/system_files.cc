#include "remote/agent/machine/system_files.h"

#include <fcntl.h>

#include "remote/agent/root/root.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kSystemFileBytesMax = 8U << 20U;

}  // namespace

std::string text_of(const std::string& path) {
  auto text = read_file(path, kSystemFileBytesMax);
  return text ? std::move(*text) : std::string();
}

std::vector<std::string> names_under(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return {};
  const Root parent{folder, UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0))};
  auto names = names_in_root(parent);
  return names ? std::move(*names) : std::vector<std::string>();
}

}  // namespace paddle::agent
