#include "base/safe_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace paddle {
namespace {

constexpr std::size_t kPathBytesMax = 4096;
constexpr std::size_t kComponentBytesMax = 255;

Result<UniqueFd> open_beneath(int root_fd, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, root_fd, path.c_str(), &how, sizeof how);
  if (fd < 0) return system_error(Errc::kData, "open " + path);
  return UniqueFd(static_cast<int>(fd));
}

Status make_directory_chain(int root_fd, const std::string& path) {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    const auto slash = prefix.rfind('/');
    UniqueFd parent;
    if (slash != std::string::npos) {
      PADDLE_TRY(parent, open_beneath(root_fd, prefix.substr(0, slash), O_PATH | O_DIRECTORY));
    }
    const std::string name = slash == std::string::npos ? prefix : prefix.substr(slash + 1);
    if (::mkdirat(parent ? parent.get() : root_fd, name.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_error(Errc::kResource, "mkdir " + prefix);
    }
    if (end == std::string::npos) return {};
  }
}

}  // namespace

Result<SafePath> SafePath::parse(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return Error{Errc::kData, "unsafe path '" + std::string(text.substr(0, 200)) + "': " + why, ""};
  };
  if (text.empty() || text.size() > kPathBytesMax) return refuse("it must have 1 to 4096 bytes");
  if (text.find('\0') != std::string_view::npos) return refuse("it contains a NUL byte");
  if (text.front() == '/') return refuse("it must be relative");
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..")
      return refuse("it has an empty, '.' or '..' component");
    if (part.size() > kComponentBytesMax) return refuse("a component is longer than 255 bytes");
    begin = end + 1;
  }
  return SafePath(std::string(text));
}

Result<UniqueFd> SafePath::open_read(int root_fd) const {
  PADDLE_TRY(UniqueFd fd, open_beneath(root_fd, text_, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + text_);
  if (!S_ISREG(info.st_mode)) return Error{Errc::kData, text_ + " is not a regular file", ""};
  return fd;
}

Result<UniqueFd> SafePath::open_directory(int root_fd) const {
  return open_beneath(root_fd, text_, O_RDONLY | O_DIRECTORY);
}

Status SafePath::make_directories(int root_fd) const {
  return make_directory_chain(root_fd, text_);
}

}  // namespace paddle
