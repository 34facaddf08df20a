#include "remote/launcher/trusted_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <deque>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::remote {
namespace {

constexpr int kLinksMax = 40;  // as in the kernel

// The user that called sudo, else this user. SUDO_UID is used only if we are root: then sudo has
// set it.
uid_t caller() {
  uid_t user = ::geteuid();
  const char* const value = user == 0 ? ::getenv("SUDO_UID") : nullptr;
  if (value != nullptr) std::from_chars(value, value + std::string_view(value).size(), user);
  return user;
}

// Opens a path and checks each part. "/a/../b" is resolved as the kernel does: link by link.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {}

  Result<UniqueFd> open() {
    if (path_.empty()) return missing(ENOENT);
    PADDLE_TRY_STATUS(start(path_.starts_with('/') ? "/" : "."));
    if (!path_.starts_with('/')) PADDLE_TRY_STATUS(check_folders_above());
    queue(path_);
    while (!parts_.empty()) {
      const std::string part = std::move(parts_.front());
      parts_.pop_front();
      PADDLE_TRY_STATUS(step(part));
    }
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    const std::string place = fmt::format("/proc/self/fd/{}", at_.get());
    UniqueFd file(::open(place.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file) return missing(errno);
    return file;
  }
  // True if open() found no file and others could create it in its folder.
  bool others_may_add() const { return others_may_add_; }

 private:
  Error missing(int error) const {
    errno = error;
    return system_error(Errc::kUsage, "open " + path_);
  }

  // The error for a name that is not in the folder `at_`.
  Error not_found(int error, const std::string& part) {
    struct stat info {};
    others_may_add_ = error == ENOENT && ::fstat(at_.get(), &info) == 0 &&
                      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (info.st_mode & S_ISVTX) != 0;
    if (!others_may_add_) return missing(error);
    return Error{Errc::kUsage,
                 fmt::format("{} does not exist, and other users could create it in {}",
                             escape_control(part), name_of(at_.get())),
                 "copy what you trust into a folder of your own"};
  }

  // An access list may give others the rights that the mode shows for the group.
  static bool has_access_list(int fd) {
    const std::string place = fmt::format("/proc/self/fd/{}", fd);
    return ::getxattr(place.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
  }

  Status start(const char* folder) {
    at_ = UniqueFd(::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_) return missing(errno);
    struct stat info {};
    if (::fstat(at_.get(), &info) != 0) return missing(errno);
    return check(info);
  }

  // Checks the folders above the current directory, up to the root.
  Status check_folders_above() const {
    UniqueFd above(::openat(at_.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat last {};
    if (::fstat(at_.get(), &last) != 0) return missing(errno);
    for (;;) {
      struct stat info {};
      if (!above || ::fstat(above.get(), &info) != 0) return missing(errno);
      if (info.st_ino == last.st_ino && info.st_dev == last.st_dev) return {};
      PADDLE_TRY_STATUS(check(info, above.get()));
      last = info;
      above = UniqueFd(::openat(above.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
  }

  void queue(std::string_view path) {
    std::deque<std::string> parts;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      if (end > begin) parts.emplace_back(path.substr(begin, end - begin));
      begin = end + 1;
    }
    parts_.insert(parts_.begin(), parts.begin(), parts.end());
  }

  Status step(const std::string& part) {
    UniqueFd next(::openat(at_.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return not_found(errno, part);
    struct stat info {};
    if (::fstat(next.get(), &info) != 0) return missing(errno);
    if (!S_ISLNK(info.st_mode)) {
      at_ = std::move(next);
      return check(info);
    }
    if (++links_ > kLinksMax) return missing(ELOOP);
    PADDLE_TRY_STATUS(check(info, next.get()));
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(next.get(), "", target.data(), target.size());
    if (size <= 0) return missing(size == 0 ? ENOENT : errno);
    const std::string_view text(target.data(), static_cast<std::size_t>(size));
    if (text.starts_with('/')) PADDLE_TRY_STATUS(start("/"));
    queue(text);
    return {};
  }

  Status check(const struct stat& info) const { return check(info, at_.get()); }

  Status check(const struct stat& info, int fd) const {
    const uid_t owner = info.st_uid;
    if (!is_trusted_owner(owner)) {
      return refuse(fd,
                    fmt::format("belongs to user {}, and that user could have changed it", owner),
                    "copy what you trust into a folder of your own, or chown it");
    }
    const bool is_sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
    if (S_ISLNK(info.st_mode) || is_sticky) return {};
    const bool own_group = info.st_gid == owner && !has_access_list(fd);
    if ((info.st_mode & S_IWOTH) == 0 && ((info.st_mode & S_IWGRP) == 0 || own_group)) return {};
    const bool is_group = (info.st_mode & S_IWOTH) == 0;
    return refuse(fd, is_group ? "can be written by its group" : "can be written by all users",
                  fmt::format("chmod {}-w {}", is_group ? "g" : "go", name_of(fd)));
  }

  Error refuse(int fd, const std::string& why, const std::string& hint) const {
    const std::string name = name_of(fd);
    return Error{Errc::kAuth,
                 name == path_ ? fmt::format("{} {}", escape_control(path_), why)
                               : fmt::format("{}: {} {}", escape_control(path_), name, why),
                 hint};
  }

  static std::string name_of(int fd) {
    std::array<char, PATH_MAX> name{};
    const ssize_t size =
        ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), name.data(), name.size());
    if (size <= 0) return "a folder above";
    return escape_control(std::string_view(name.data(), static_cast<std::size_t>(size)));
  }

  const std::string& path_;
  std::deque<std::string> parts_;  // still to be resolved
  UniqueFd at_;
  int links_ = 0;
  bool others_may_add_ = false;
};

}  // namespace

bool is_trusted_owner(uid_t owner) {
  return owner == 0 || owner == ::geteuid() || owner == caller();
}

Result<UniqueFd> open_trusted(const std::string& path) {
  return Walk(path).open();
}

Status check_trusted(const std::string& path) {
  Walk walk(path);
  auto file = walk.open();
  if (file || (file.error().code != Errc::kAuth && !walk.others_may_add())) return {};
  Error error = std::move(file).error();
  error.code = Errc::kAuth;
  return error;
}

Result<std::string> read_trusted_file(const std::string& path, std::size_t max_bytes) {
  PADDLE_TRY(const UniqueFd file, open_trusted(path));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(Errc::kData, "read " + path);
  if (!S_ISREG(info.st_mode)) return Error{Errc::kData, path + " is not a regular file", ""};
  return read_file(fmt::format("/proc/self/fd/{}", file.get()), max_bytes);
}

}  // namespace paddle::remote
