#include "remote/agent/store/pushed_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/agent.pb.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kRecordBytesMax = 256U << 20U;  // a million paths
constexpr mode_t kWriteAccess = 0222;

// Pushed files are read-only, because jobs share them; a file that replaced one usually is not.
bool is_pushed(int folder, const std::string& name) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  return S_ISLNK(info.st_mode) || (S_ISREG(info.st_mode) && (info.st_mode & kWriteAccess) == 0);
}

// Removes the folder and its parents while they are empty, up to `last`.
void remove_pushed(const Root& root, const std::string& last, std::string path) {
  for (int flags = 0; path.size() > last.size(); flags = AT_REMOVEDIR) {
    const auto slash = path.rfind('/');
    const auto parent = SafePath::parse(path.substr(0, slash));
    if (!parent) return;
    const auto folder = parent->open_directory(root.fd.get());
    const std::string name = path.substr(slash + 1);
    if (!folder || (flags == 0 && !is_pushed(folder->get(), name))) return;
    if (::unlinkat(folder->get(), name.c_str(), flags) != 0) return;
    path.resize(slash);
  }
}

}  // namespace

Result<bool> keep_only(const Root& root, const std::string& folder,
                       const std::set<std::string>& paths) {
  PADDLE_TRY(const SafePath record, SafePath::parse(folder + ".pushed"));
  const std::string prefix = folder + "/";
  wire::agent::Manifest before;
  // Without a valid record no file is known to be a push's.
  if (const auto text = read_below(root, record, kRecordBytesMax))
    (void)before.ParseFromString(*text);
  bool removed = false;
  for (const auto& file : before.files()) {
    if (!file.path().starts_with(prefix) || paths.contains(file.path())) continue;
    remove_pushed(root, folder, file.path());
    removed = true;
  }
  wire::agent::Manifest now;
  for (auto at = paths.lower_bound(prefix); at != paths.end() && at->starts_with(prefix); ++at)
    now.add_files()->set_path(*at);
  PADDLE_TRY_STATUS(replace_below(root, record, as_bytes(now.SerializeAsString())));
  return removed;
}

}  // namespace paddle::agent
