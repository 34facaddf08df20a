#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace paddle {
namespace {

// Creates a file beside `path` with a unique name, and sets `name` to it. Several processes may
// replace one file at a time, and a killed one leaves its temporary file.
UniqueFd create_beside(const std::string& path, unsigned mode, std::string& name) {
  for (unsigned i = 0;; ++i) {
    name = fmt::format("{}.{}-{}.tmp", path, ::getpid(), i);
    UniqueFd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                       static_cast<mode_t>(mode)));
    if (fd || errno != EEXIST) return fd;
  }
}

// Writes `content` to the file `temporary`, then renames it to `path`.
Status write_durably(int fd, const std::string& temporary, const std::string& path,
                     ByteSpan content) {
  if (auto written = write_all(fd, content, TimePoint::max()); !written) {
    Error error = std::move(written).error().with(temporary);
    error.code = Errc::kResource;
    return error;
  }
  if (::fsync(fd) != 0) return system_error(Errc::kResource, "fsync " + temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return system_error(Errc::kResource, "rename " + temporary);
  }
  return {};
}

Result<std::string> read_to_end(int fd, const std::string& path, std::size_t max_bytes) {
  std::string content;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(Errc::kData, "read " + path);
    if (got == 0) return content;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > max_bytes) {
      return Error{Errc::kData, path + ": larger than " + std::to_string(max_bytes) + " bytes", ""};
    }
  }
}

}  // namespace

bool is_readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return fd >= 0 && ::poll(&polled, 1, 0) > 0;
}

Status wait_ready(int fd, short events, TimePoint deadline) {
  for (;;) {
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) return Error{Errc::kUnreachable, "deadline passed", ""};
    pollfd item{fd, events, 0};
    const int ready = ::poll(&item, 1, timeout);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error(Errc::kFailed, "poll");
  }
}

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool is_lack(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EROFS:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return true;
    default:
      return false;
  }
}

Error system_error(Errc code, const std::string& what) {
  const int error = errno;
  // A retry cannot help, so the error has a hint. With kUnreachable the hint would be wrong: a
  // network that refuses a connection also reports EACCES.
  const bool is_refused = error == EACCES && code != Errc::kUnreachable;
  const char* const hint =
      is_refused ? "permission denied for this user: change the permissions, or choose another path"
                 : "";
  return Error{is_lack(error) ? Errc::kResource : code, what + ": " + std::strerror(error), hint};
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return system_error(Errc::kFailed, "fcntl O_NONBLOCK");
  }
  return {};
}

Status read_exact(int fd, std::span<std::byte> into, TimePoint deadline) {
  while (!into.empty()) {
    PADDLE_TRY_STATUS(wait_ready(fd, POLLIN, deadline));
    const ssize_t got = ::read(fd, into.data(), into.size());
    if (got == 0) return Error{Errc::kUnreachable, "closed by peer", ""};
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return system_error(Errc::kUnreachable, "read");
    }
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Status write_all(int fd, ByteSpan data, TimePoint deadline) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return system_error(Errc::kUnreachable, "write");
      PADDLE_TRY_STATUS(wait_ready(fd, POLLOUT, deadline));
      continue;
    }
    data = data.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

bool read_at(int fd, std::span<std::byte> into, std::uint64_t offset) {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

bool write_at(int fd, ByteSpan data, std::uint64_t offset) {
  while (!data.empty()) {
    const ssize_t put = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    data = data.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return true;
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  // Without O_NONBLOCK, open() would block on a pipe that has no writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return system_error(Errc::kData, "open " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + path);
  const bool is_null = S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
  if (!S_ISREG(info.st_mode) && !is_null) {
    return Error{Errc::kData, path + ": not a regular file", "replace it with a file"};
  }
  return read_to_end(fd.get(), path, max_bytes);
}

Result<std::string> read_file_or_pipe(const std::string& path, std::size_t max_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(Errc::kData, "open " + path);
  return read_to_end(fd.get(), path, max_bytes);
}

Status replace_file(const std::string& path, ByteSpan content, unsigned mode) {
  std::string temporary;
  const UniqueFd file = create_beside(path, mode, temporary);
  if (!file) return system_error(Errc::kResource, "create " + temporary);
  if (auto written = write_durably(file.get(), temporary, path, content); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return system_error(Errc::kResource, "fsync " + directory);
  return {};
}

}  // namespace paddle
