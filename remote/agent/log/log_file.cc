#include "remote/agent/log/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>

namespace paddle::agent {
namespace {

// A lock held during a rotation, and while a reader opens the files.
class FolderLock {
 public:
  FolderLock(int folder, int operation)
      : fd_(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_) ::flock(fd_.get(), operation);
  }

 private:
  UniqueFd fd_;
};

std::uint64_t size_of(const UniqueFd& fd) {
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<std::uint64_t>(info.st_size);
}

std::uint64_t base_of(int folder, const std::string& name) {
  const UniqueFd fd = open_log_file(folder, name + ".base", O_RDONLY | O_NONBLOCK);
  char digits[32];
  const ssize_t size = fd ? ::read(fd.get(), digits, sizeof digits) : 0;
  std::uint64_t base = 0;
  if (size > 0) std::from_chars(digits, digits + size, base);
  return base;
}

// Opens the folder that holds the log.
Result<FolderEntry> open_parent(const Root& root, const std::string& path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) {
    return FolderEntry{UniqueFd(::fcntl(root.fd.get(), F_DUPFD_CLOEXEC, 0)), path};
  }
  PADDLE_TRY(const SafePath parent, SafePath::parse(path.substr(0, slash)));
  PADDLE_TRY(UniqueFd folder, parent.open_directory(root.fd.get()));
  return FolderEntry{std::move(folder), path.substr(slash + 1)};
}

}  // namespace

LogWriter::LogWriter(FolderEntry entry, UniqueFd fd, std::uint64_t size, std::uint64_t bytes_max)
    : entry_(std::move(entry)),
      fd_(std::move(fd)),
      times_(entry_.folder.get(), entry_.name),
      base_(base_of(entry_.folder.get(), entry_.name)),
      size_(size),
      bytes_max_(bytes_max) {}

Result<LogWriter> LogWriter::open(const Root& root, const std::string& path,
                                  std::uint64_t bytes_max) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  PADDLE_TRY(FolderEntry entry, make_parent(root, safe));
  UniqueFd fd = open_log_file(entry.folder.get(), entry.name, O_WRONLY | O_CREAT | O_APPEND);
  if (!fd) return system_error(Errc::kResource, "open log " + path);
  const std::uint64_t size = size_of(fd);
  return LogWriter(std::move(entry), std::move(fd), size, bytes_max);
}

void LogWriter::append(ByteSpan data, std::int64_t unix_ms) {
  if (size_ + data.size() > bytes_max_) rotate();
  times_.note(base_ + size_, unix_ms);
  if (fd_ && write_all(fd_.get(), data, TimePoint::max())) size_ += data.size();
}

void LogWriter::rotate() {
  const int folder = entry_.folder.get();
  const FolderLock lock(folder, LOCK_EX);
  const std::string base = std::to_string(base_ + size_);
  const std::string temporary = entry_.name + ".base.new";
  const UniqueFd base_fd = open_log_file(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!base_fd || !write_all(base_fd.get(), as_bytes(base), TimePoint::max()) ||
      ::renameat(folder, entry_.name.c_str(), folder, (entry_.name + ".1").c_str()) != 0) {
    return;  // keeps appending to the present file
  }
  ::renameat(folder, temporary.c_str(), folder, (entry_.name + ".base").c_str());
  fd_ = open_log_file(folder, entry_.name, O_WRONLY | O_CREAT | O_APPEND);
  times_.rotate(folder, entry_.name);
  base_ += size_;
  size_ = 0;
}

Result<LogPart> read_log(const Root& root, const std::string& path, std::uint64_t offset,
                         std::uint32_t max_bytes, std::int64_t since_unix_ms) {
  PADDLE_TRY(const FolderEntry entry, open_parent(root, path));
  const int folder = entry.folder.get();
  const std::string& name = entry.name;
  const FolderLock lock(folder, LOCK_SH);
  const UniqueFd current = open_log_file(folder, name, O_RDONLY | O_NONBLOCK);
  if (!current) return system_error(Errc::kData, "open log " + path);
  const UniqueFd before = open_log_file(folder, name + ".1", O_RDONLY | O_NONBLOCK);
  const std::uint64_t base = base_of(folder, name);
  const std::uint64_t before_size = std::min(size_of(before), base);
  LogPart part;
  part.size = base + size_of(current);
  if (offset > part.size) offset = 0;
  offset = std::max(offset, base - before_size);
  if (since_unix_ms > 0) {
    offset = std::clamp(log_offset_at(folder, name, since_unix_ms), offset, part.size);
  }
  const bool old = offset < base;
  const std::uint64_t left = old ? base - offset : part.size - offset;
  part.data.resize(std::min<std::uint64_t>({left, max_bytes, kLogReadBytesMax}));
  const std::uint64_t at = old ? size_of(before) - (base - offset) : offset - base;
  const ssize_t got = ::pread((old ? before : current).get(), part.data.data(), part.data.size(),
                              static_cast<off_t>(at));
  if (got < 0) return system_error(Errc::kData, "read log " + path);
  part.data.resize(static_cast<std::size_t>(got));
  part.times = log_times(folder, name, offset, offset + part.data.size(), kLogTimesMax);
  // The part ends where the first record left out begins.
  if (part.times.size() + 1 >= kLogTimesMax && part.times.back().offset > offset) {
    part.data.resize(part.times.back().offset - offset);
  }
  part.next_offset = offset + part.data.size();
  return part;
}

std::int64_t last_written(const Root& root, const std::string& path) {
  const auto entry = open_parent(root, path);
  if (!entry) return 0;
  constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();
  const auto times = log_times(entry->folder.get(), entry->name, kEnd, kEnd, 1);
  return times.empty() ? 0 : times.back().unix_ms;
}

}  // namespace paddle::agent
