#include "remote/agent/process/claims.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "remote/agent/process/key_files.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

constexpr const char* kLock = "claim";
constexpr std::size_t kPidBytesMax = 20;
constexpr int kLookPeriodMs = 20;

// Empty when another session has the lock. The file holds the pid of its last holder.
Result<UniqueFd> lock_job(const Root& root, const SafePath& path, Duration wait) {
  const auto now = [] { return TimePoint(std::chrono::steady_clock::now()); };
  const TimePoint deadline = now() + wait;
  for (;;) {
    const auto entry = make_parent(root, path);
    UniqueFd fd(entry ? ::openat(entry->folder.get(), kLock,
                                 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
                      : -1);
    // A session that released the job may have removed the folder.
    if (!fd && errno == ENOENT && now() < deadline) continue;
    if (!entry) return entry.error();
    if (!fd) return system_error(Errc::kResource, "create " + path.str());
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK) {
      return system_error(Errc::kResource, "lock " + path.str());
    }
    struct stat info {};
    // A lock on a file that a teardown has removed protects nothing.
    if (locked && ::fstat(fd.get(), &info) == 0 && info.st_nlink > 0) {
      // The pid is for a message: a disk that is full keeps nobody from the lock.
      const bool is_empty = ::ftruncate(fd.get(), 0) == 0;
      if (is_empty) (void)::dprintf(fd.get(), "%s", std::to_string(::getpid()).c_str());
      return fd;
    }
    if (now() >= deadline) return UniqueFd();
    ::poll(nullptr, 0, kLookPeriodMs);
  }
}

bool runs(const Record& record) {
  return !record.exit && supervisor_alive(record);
}

}  // namespace

Status Claims::lock(const std::string& name, Duration wait) {
  PADDLE_TRY_STATUS(check_name(name));
  release_job();
  PADDLE_TRY(const SafePath path, SafePath::parse("jobs/" + name + "/" + kLock));
  PADDLE_TRY(UniqueFd lock, lock_job(root_, path, wait));
  if (!lock) {
    const auto pid = read_below(root_, path, kPidBytesMax);
    const std::string agent =
        "paddlectl-agent (pid " + (pid && !pid->empty() ? *pid : "unknown") + ")";
    return Error{Errc::kUsage, "another paddlectl is starting a job named '" + name + "'",
                 "follow it: paddlectl attach --job " + name +
                     "; or choose another --name; or, where its connection broke, wait two minutes "
                     "for the end of its " +
                     agent};
  }
  job_ = std::move(lock);
  name_ = name;
  return {};
}

Status Claims::job(const std::string& name, bool again, Duration wait) {
  PADDLE_TRY_STATUS(lock(name, wait));
  PADDLE_TRY(const auto records, read_records(root_, name));
  if (again ? std::ranges::any_of(records, runs) : !records.empty()) {
    release_job();
    return Error{
        Errc::kUsage, "a job named '" + name + "' already exists",
        again ? "follow it: paddlectl attach; or end it: paddlectl stop" : "choose another --name"};
  }
  wipe_key_files(root_, name, Wipe::kKeys);  // of a supervisor that was killed
  return {};
}

Result<bool> Claims::port(const std::string& address, std::uint32_t port) {
  const std::string name = "paddlectl port " + address + ":" + std::to_string(port);
  if (ports_.size() == kPortsClaimedMax || ports_.contains(name)) return true;
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  // The first byte of sun_path stays 0: an abstract name, without a file.
  if (name.size() >= sizeof own.sun_path) return Error{Errc::kUsage, "address is too long", ""};
  std::memcpy(own.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), size) != 0) {
    if (errno == EADDRINUSE) return false;
    return system_error(Errc::kResource, "claim port " + std::to_string(port));
  }
  ports_.emplace(name, std::move(fd));
  return true;
}

void Claims::release() {
  release_job();
  ports_.clear();
}

void Claims::release_job() {
  if (!job_) return;
  const auto records = read_records(root_, name_);
  const auto all = open_folder(root_, "jobs");
  const std::string folder = name_ + "/";
  struct stat held {};
  struct stat there {};
  // The job may have been removed and started again by another session.
  if (all && ::fstat(job_.get(), &held) == 0 &&
      ::fstatat(all->get(), (folder + kLock).c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      held.st_ino == there.st_ino && held.st_dev == there.st_dev) {
    if (records && std::ranges::none_of(*records, runs)) wipe_key_files(root_, name_, Wipe::kKeys);
    ::unlinkat(all->get(), (folder + kLock).c_str(), 0);
    if (records && records->empty()) ::unlinkat(all->get(), name_.c_str(), AT_REMOVEDIR);
  }
  job_.reset();
}

bool is_claimed(const Root& root, const std::string& job) {
  const auto path = SafePath::parse("jobs/" + job + "/" + kLock);
  const auto lock = path ? path->open_read(root.fd.get()) : Result<UniqueFd>(path.error());
  return lock && ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void wipe_unneeded_keys(const Root& root, const std::string& job, Duration wait) {
  Claims claims(root);
  (void)claims.lock(job, wait);
}

}  // namespace paddle::agent
