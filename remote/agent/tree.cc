#include "remote/agent/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/base/fd.h"

namespace paddle::agent {
namespace {

constexpr int kDepthMax = 100;
constexpr std::size_t kRemainingMax = 100;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

UniqueFd open_folder(int folder, const std::string& name) {
  return UniqueFd(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Sorted; the descriptor stays the caller's.
Result<std::vector<std::string>> entries(int folder) {
  UniqueFd own = open_folder(folder, ".");
  const std::unique_ptr<DIR, CloseDirectory> directory(own ? ::fdopendir(own.get()) : nullptr);
  if (!directory) return system_error(Errc::kData, "open folder");
  own.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void remain(RemoveReport& report, const std::string& path, const char* why) {
  if (report.remaining.size() < kRemainingMax) report.remaining.push_back(path + ": " + why);
}

// True when nothing of it is left.
bool remove_entry(int folder, const std::string& name, const std::string& path, dev_t device,
                  const std::function<bool(const std::string&)>& keep, RemoveReport& report,
                  int depth) {
  if (keep && keep(path)) return false;
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return true;
    remain(report, path, std::strerror(errno));
    return false;
  }
  if (info.st_dev != device || depth > kDepthMax) {
    remain(report, path, depth > kDepthMax ? "nested too deeply" : "another file system");
    return false;
  }
  if (!S_ISDIR(info.st_mode)) {
    if (::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) {
      ++report.files;
      return true;
    }
    remain(report, path, std::strerror(errno));
    return false;
  }
  bool empty = true;
  {
    if ((info.st_mode & S_IRWXU) != S_IRWXU) {
      ::fchmodat(folder, name.c_str(), 0700, 0);  // a folder we may not list is still ours
    }
    const UniqueFd fd = open_folder(folder, name);
    const auto names = entries(fd ? fd.get() : -1);
    if (!names) {
      remain(report, path, std::strerror(errno));
      return false;
    }
    for (const std::string& child : *names) {
      empty &= remove_entry(fd.get(), child, path + "/" + child, device, keep, report, depth + 1);
    }
  }
  if (!empty) return false;
  if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  remain(report, path, std::strerror(errno));
  return false;
}

}  // namespace

void remove_tree(int folder, const std::string& name, const std::string& path,
                 const std::function<bool(const std::string&)>& keep, RemoveReport& report) {
  struct stat info {};
  if (::fstat(folder, &info) != 0) return remain(report, path, std::strerror(errno));
  remove_entry(folder, name, path, info.st_dev, keep, report, 0);
}

Status walk_files(int folder, const std::string& prefix,
                  const std::function<Status(int, const std::string&, std::uint64_t, bool)>& visit,
                  int depth) {
  if (depth > kDepthMax) return Error{Errc::kData, prefix + ": nested too deeply", ""};
  PADDLE_TRY(const std::vector<std::string> names, entries(folder));
  for (const std::string& name : names) {
    const std::string path = prefix + name;
    const UniqueFd fd(
        ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    // Links, sockets and what vanished meanwhile are not regular files.
    if (!fd || ::fstat(fd.get(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      PADDLE_TRY_STATUS(walk_files(fd.get(), path + "/", visit, depth + 1));
    } else if (S_ISREG(info.st_mode)) {
      PADDLE_TRY_STATUS(visit(fd.get(), path, static_cast<std::uint64_t>(info.st_size),
                              (info.st_mode & S_IXUSR) != 0));
    }
  }
  return {};
}

}  // namespace paddle::agent
