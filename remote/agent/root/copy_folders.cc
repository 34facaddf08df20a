#include "remote/agent/root/copy_folders.h"

#include <fcntl.h>
#include <sys/file.h>

#include "remote/agent/root/files.h"

namespace paddle::agent {
namespace {

constexpr std::string_view kLock = ".lock";

}  // namespace

bool CopyFolders::open_lock() {
  const auto path = SafePath::parse(kFolder);
  const auto folder = path ? path->open_directory(root_.fd.get()) : Result<UniqueFd>(path.error());
  if (!folder) return false;
  lock_ = UniqueFd(::openat(folder->get(), std::string(kLock).c_str(),
                            O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  return bool(lock_);
}

void CopyFolders::clear() {
  if (in_use_ || !open_lock() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return;
  // Files that cannot be removed now are left to the next session or teardown.
  if (const auto names = names_in(root_, std::string(kFolder))) {
    for (const std::string& name : *names) {
      if (name != kLock) (void)remove_path(root_, std::string(kFolder) + "/" + name);
    }
  }
  ::flock(lock_.get(), LOCK_UN);
}

Status CopyFolders::use() {
  if (in_use_) return {};
  PADDLE_TRY(const SafePath path, SafePath::parse(kFolder));
  PADDLE_TRY_STATUS(path.make_directories(root_.fd.get()));
  clear();
  // The cleaner holds the exclusive lock only briefly.
  if (!lock_ || ::flock(lock_.get(), LOCK_SH) != 0)
    return system_error(Errc::kResource, "lock the folder copy");
  in_use_ = true;
  return {};
}

}  // namespace paddle::agent
