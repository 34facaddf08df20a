#include "remote/agent/process/key_files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace paddle::agent {
namespace {

constexpr const char* kMemory = "/dev/shm";
constexpr const char* kKeys = "keys";
constexpr uid_t kSystemUserMax = 999;
constexpr off_t kFileBytesMax = 4 << 20;

// The target of the link kKeys in a job's folder; "" when there is none of ours.
std::string target_in(int folder) {
  char text[PATH_MAX];
  const ssize_t size = ::readlinkat(folder, kKeys, text, sizeof text);
  const std::string target(text, size < 0 ? 0 : static_cast<std::size_t>(size));
  return target.rfind("/paddlectl-") == target.rfind('/') ? target : "";
}

// Opens the folder without following links; empty unless it belongs to this user and is closed to
// others.
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

// The file in a folder in memory that names the root and the job of the keys.
constexpr const char* kOwner = ".of";
constexpr std::size_t kOwnerBytesMax = 8192;

std::string owner_of(const Root& root, const std::string& job) {
  return root.path + "\n" + job + "\n";
}

Status write_file(int folder, const std::string& name, ByteSpan content) {
  ::unlinkat(folder, name.c_str(), 0);
  const UniqueFd file(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return system_error(Errc::kResource, "create");
  Status written = write_all(file.get(), content, TimePoint::max());
  if (!written) ::unlinkat(folder, name.c_str(), 0);
  return written;
}

// The folder for a job's key files, created if absent.
Result<UniqueFd> keys_folder(const Root& root, const std::string& job, const std::string& memory) {
  PADDLE_TRY(const SafePath path, SafePath::parse("jobs/" + job + "/" + kKeys));
  PADDLE_TRY(const FolderEntry entry, make_parent(root, path));
  const std::string target = target_in(entry.folder.get());
  if (UniqueFd there = open_private(target)) return there;
  if (!target.empty()) ::unlinkat(entry.folder.get(), kKeys, 0);  // made before a reboot
  std::string made = memory + "/paddlectl-XXXXXX";
  if (!memory.empty() && ::mkdtemp(made.data()) != nullptr) {
    UniqueFd there = open_private(made);
    const std::string owner = owner_of(root, job);
    if (there && write_file(there.get(), kOwner, as_bytes(owner)) &&
        ::symlinkat(made.c_str(), entry.folder.get(), kKeys) == 0) {
      return there;
    }
    if (there) ::unlinkat(there.get(), kOwner, 0);
    ::rmdir(made.c_str());
  }
  PADDLE_TRY_STATUS(path.make_directories(root.fd.get()));
  return path.open_directory(root.fd.get());
}

// Overwrites and removes the files in the folder.
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

// The folder in memory with a job's key files; empty: there is none.
UniqueFd memory_folder_of(const Root& root, const std::string& job) {
  const auto folder =
      check_name(job) ? open_folder(root, "jobs/" + job) : Result<UniqueFd>(UniqueFd());
  if (!folder || !*folder) return {};
  return open_private(target_in(folder->get()));
}

// Moves the key files of a job from memory, which is full, to the disk.
Status move_to_disk(const Root& root, const std::string& job, const UniqueFd& memory) {
  PADDLE_TRY(const std::vector<std::string> names, names_of(memory.get()));
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& name : names) {
    if (!check_name(name)) continue;
    const UniqueFd file(::openat(memory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || info.st_size > kFileBytesMax)
      return system_error(Errc::kResource, "read the key file of " + name);
    std::string content(static_cast<std::size_t>(info.st_size), '\0');
    PADDLE_TRY_STATUS(
        read_exact(file.get(), std::as_writable_bytes(std::span(content)), TimePoint::max()));
    files.emplace_back(name, std::move(content));
  }
  wipe_key_files(root, job);
  PADDLE_TRY(const UniqueFd disk, keys_folder(root, job, ""));
  Status moved;
  for (auto& [name, content] : files) {
    if (moved)
      moved = write_file(disk.get(), name, as_bytes(content)).with("the key file of " + name);
    ::explicit_bzero(content.data(), content.size());
  }
  return moved;
}

}  // namespace

std::string folder_in_memory() {
  struct statfs info {};
  if (::statfs(kMemory, &info) != 0 || info.f_type != TMPFS_MAGIC) return "";
  // At logout systemd removes a user's files there, except those of system users and of users with
  // lingering enabled.
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
  const std::string what = "the key file of " + process + " in jobs/" + job + "/" + kKeys;
  PADDLE_TRY(const UniqueFd folder, keys_folder(root, job, memory));
  Status written = write_file(folder.get(), process, keys);
  const UniqueFd in_memory = memory_folder_of(root, job);
  if (written || !in_memory) return std::move(written).with(what);
  PADDLE_TRY_STATUS(move_to_disk(root, job, in_memory));
  PADDLE_TRY(const UniqueFd disk, keys_folder(root, job, ""));
  return write_file(disk.get(), process, keys).with(what);
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

void wipe_stray_key_files(const Root& root, const std::string& memory) {
  const UniqueFd all(memory.empty() ? -1
                                    : ::open(memory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto names =
      all ? names_of(all.get()) : Result<std::vector<std::string>>(std::vector<std::string>());
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with("paddlectl-")) continue;
    const std::string path = memory + "/" + name;
    const UniqueFd folder = open_private(path);
    if (!folder) continue;
    const auto owner = read_file(path + "/" + kOwner, kOwnerBytesMax);
    if (!owner || !owner->starts_with(root.path + "\n")) continue;
    const std::string job =
        owner->substr(root.path.size() + 1, owner->size() - root.path.size() - 2);
    const auto known =
        check_name(job) ? open_folder(root, "jobs/" + job) : Result<UniqueFd>(UniqueFd());
    if (known && *known && target_in(known->get()) == path) continue;
    wipe_files(folder.get());
    ::rmdir(path.c_str());
  }
}

}  // namespace paddle::agent
