#include "remote/agent/process/key_files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"

namespace paddle::agent {
namespace {

constexpr const char* kMemory = "/dev/shm";
constexpr const char* kKeys = "keys";
constexpr uid_t kSystemUserMax = 999;
constexpr off_t kFileBytesMax = 4 << 20;

// Where the link in a job's folder leads; "" when there is none of ours.
std::string target_in(int folder) {
  char text[PATH_MAX];
  const ssize_t size = ::readlinkat(folder, kKeys, text, sizeof text);
  const std::string target(text, size < 0 ? 0 : static_cast<std::size_t>(size));
  return target.rfind("/paddlectl-") == target.rfind('/') ? target : "";
}

// Through no link, and only a folder that is ours alone; else empty.
UniqueFd open_private(const std::string& path) {
  const UniqueFd top(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto safe = SafePath::parse(path.starts_with('/') ? path.substr(1) : path);
  if (!safe) return {};
  auto folder = safe->open_directory(top.get());
  struct stat info {};
  if (!folder || ::fstat(folder->get(), &info) != 0 || info.st_uid != ::geteuid() ||
      (info.st_mode & 077) != 0) {
    return {};
  }
  return *std::move(folder);
}

// The folder for a job's key files, made where there is none.
Result<UniqueFd> keys_folder(const Root& root, const std::string& job, const std::string& memory) {
  PADDLE_TRY(const SafePath path, SafePath::parse("jobs/" + job + "/" + kKeys));
  PADDLE_TRY(const FolderEntry entry, make_parent(root, path));
  const std::string target = target_in(entry.folder.get());
  if (UniqueFd there = open_private(target)) return there;
  if (!target.empty()) ::unlinkat(entry.folder.get(), kKeys, 0);  // from before a boot
  std::string made = memory + "/paddlectl-XXXXXX";
  if (!memory.empty() && ::mkdtemp(made.data()) != nullptr) {
    UniqueFd there = open_private(made);
    if (there && ::symlinkat(made.c_str(), entry.folder.get(), kKeys) == 0) return there;
    ::rmdir(made.c_str());
  }
  PADDLE_TRY_STATUS(path.make_directories(root.fd.get()));
  return path.open_directory(root.fd.get());
}

void wipe_files(int folder) {
  const auto names = names_of(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    const UniqueFd file(
        ::openat(folder, name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode)) {
      const Bytes zeros(static_cast<std::size_t>(std::min(info.st_size, kFileBytesMax)),
                        std::byte{0});
      (void)write_at(file.get(), zeros, 0);
      ::fdatasync(file.get());
    }
    ::unlinkat(folder, name.c_str(), 0);
  }
}

}  // namespace

std::string folder_in_memory() {
  struct statfs info {};
  if (::statfs(kMemory, &info) != 0 || info.f_type != TMPFS_MAGIC) return "";
  // systemd removes a user's files there at logout, but not a system user's or who lingers.
  const char* const user = ::getenv("USER");
  const bool keeps =
      ::access("/run/systemd/system", F_OK) != 0 || ::geteuid() <= kSystemUserMax ||
      (user != nullptr && check_name(user) &&
       ::access((std::string("/var/lib/systemd/linger/") + user).c_str(), F_OK) == 0);
  return keeps ? kMemory : "";
}

Status write_key_file(const Root& root, const std::string& job, const std::string& process,
                      ByteSpan keys, const std::string& memory) {
  PADDLE_TRY_STATUS(check_name(job));
  PADDLE_TRY_STATUS(check_name(process));
  PADDLE_TRY(const UniqueFd folder, keys_folder(root, job, memory));
  ::unlinkat(folder.get(), process.c_str(), 0);
  const UniqueFd file(::openat(folder.get(), process.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return system_error(Errc::kResource, "create the key file of " + process);
  return write_all(file.get(), keys, TimePoint::max());
}

void wipe_key_files(const Root& root, const std::string& job) {
  if (!check_name(job)) return;
  const auto folder = open_folder(root, "jobs/" + job);
  if (!folder) return;
  const std::string target = target_in(folder->get());
  if (const UniqueFd there = open_private(target)) {
    wipe_files(there.get());
    ::rmdir(target.c_str());
  }
  if (!target.empty()) ::unlinkat(folder->get(), kKeys, 0);
  if (const auto here = open_folder(root, "jobs/" + job + "/" + kKeys)) {
    wipe_files(here->get());
    ::unlinkat(folder->get(), kKeys, AT_REMOVEDIR);
  }
}

}  // namespace paddle::agent
