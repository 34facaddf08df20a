#include "engine/snapshot/export_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

namespace paddle::exporting {
namespace {

constexpr std::size_t kBufferBytes = 1U << 20U;
constexpr mode_t kNewMode = 0666;  // minus the umask

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Calls attempt(name) with names beside `path` until it creates one that does not exist yet.
template <class Attempt>
Result<std::string> make_beside(const std::string& path, const Attempt& attempt) {
  for (unsigned i = 0;; ++i) {
    std::string name = fmt::format("{}.{}-{}.tmp", path, ::getpid(), i);
    if (attempt(name)) return name;
    if (errno != EEXIST) return system_error(Errc::kResource, "create " + path);
  }
}

}  // namespace

Result<Sink> Sink::open(const std::string& path) {
  Sink sink;
  if (path.empty()) return sink;
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    std::error_code ignored;
    if (std::filesystem::is_symlink(path, ignored))
      return Error{Errc::kUsage, path + ": is a link to a missing file",
                   "remove it, or name a file"};
    PADDLE_TRY_STATUS(sink.make_file(path));
    return sink;
  }
  if (S_ISDIR(found.st_mode))
    return Error{Errc::kUsage, path + ": is a folder", "name a file in it"};
  if (S_ISBLK(found.st_mode)) return Error{Errc::kUsage, path + ": is a disk", "name a file"};
  if (S_ISREG(found.st_mode)) {
    std::error_code failed;
    const std::filesystem::path target = std::filesystem::canonical(path, failed);
    if (failed) return Error{Errc::kResource, path + ": " + failed.message()};
    sink.mode_ = found.st_mode & 0777U;
    PADDLE_TRY_STATUS(sink.make_file(target));
    return sink;
  }
  sink.fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!sink.fd_) return system_error(Errc::kResource, "open " + path);
  return sink;
}

Sink::Sink(Sink&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      mode_(other.mode_),
      fd_(std::move(other.fd_)),
      buffer_(std::move(other.buffer_)),
      written_(other.written_),
      is_finished_(std::exchange(other.is_finished_, true)) {}

Sink::~Sink() {
  if (!is_finished_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Status Sink::make_file(const std::string& path) {
  path_ = path;
  // If an export is interrupted, a file without a name disappears.
  fd_ = UniqueFd(::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kNewMode));
  if (!fd_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
    PADDLE_TRY_STATUS(make_named_file());
  if (!fd_) return system_error(Errc::kResource, "create " + path);
  if (mode_ != 0 && ::fchmod(fd_.get(), mode_) != 0)
    return system_error(Errc::kResource, "chmod " + path);
  return {};
}

Status Sink::make_named_file() {
  PADDLE_TRY(temporary_, make_beside(path_, [this](const std::string& name) {
               fd_ =
                   UniqueFd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kNewMode));
               return static_cast<bool>(fd_);
             }));
  return {};
}

int Sink::fd() const {
  return fd_ ? fd_.get() : STDOUT_FILENO;
}

Status Sink::write(ByteSpan bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  written_ += bytes.size();
  return buffer_.size() < kBufferBytes ? Status() : flush();
}

Status Sink::flush() {
  ByteSpan left = buffer_;
  while (!left.empty()) {
    const ssize_t count = ::write(fd(), left.data(), left.size());
    if (count >= 0) {
      left = left.subspan(static_cast<std::size_t>(count));
    } else if (errno == EPIPE && !is_file()) {
      return Error{Errc::kInterrupted, "the reader of the export has closed the pipe"};
    } else if (errno != EINTR) {
      return system_error(Errc::kResource, "write " + shown());
    }
  }
  buffer_.clear();
  return {};
}

Status Sink::patch(std::uint64_t offset, ByteSpan bytes) {
  PADDLE_CHECK(is_file() && offset + bytes.size() <= written_);
  PADDLE_TRY_STATUS(flush());
  if (write_at(fd(), bytes, offset)) return {};
  return system_error(Errc::kResource, "write " + path_);
}

Status Sink::finish() {
  PADDLE_TRY_STATUS(flush());
  if (is_file()) {
    if (::fsync(fd()) != 0) return system_error(Errc::kResource, "fsync " + path_);
    if (temporary_.empty()) {
      const std::string own = fmt::format("/proc/self/fd/{}", fd());
      PADDLE_TRY(temporary_, make_beside(path_, [&own](const std::string& name) {
                   return ::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(),
                                   AT_SYMLINK_FOLLOW) == 0;
                 }));
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      return system_error(Errc::kResource, "rename to " + path_);
    is_finished_ = true;
    const UniqueFd folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder && ::fsync(folder.get()) != 0)
      return system_error(Errc::kResource, "fsync the folder of " + path_);
  }
  is_finished_ = true;
  return {};
}

}  // namespace paddle::exporting
