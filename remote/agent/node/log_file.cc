#include "remote/agent/node/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>

namespace paddle::agent {
namespace {

constexpr std::size_t kRecordBytes = 16;  // in `<log>.times`
// Bytes written within this time after the last record get no record of their own.
constexpr std::int64_t kTimeStepMs = 10;

// Never follows a symbolic link, nor waits for the other end of a FIFO: only regular files count.
UniqueFd open_log_file(int folder, const std::string& name, int flags) {
  UniqueFd file(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file || (::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode))) return file;
  file.reset();
  errno = EINVAL;
  return file;
}

std::uint64_t records_in(int fd) {
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<std::uint64_t>(info.st_size) / kRecordBytes;
}

std::optional<LogTime> record_at(int fd, std::uint64_t index) {
  std::array<std::byte, kRecordBytes> raw{};
  const auto at = static_cast<off_t>(index * kRecordBytes);
  if (::pread(fd, raw.data(), raw.size(), at) != static_cast<ssize_t>(raw.size())) return {};
  return LogTime{load_le<std::uint64_t>(raw.data()), load_le<std::int64_t>(raw.data() + 8)};
}

// The index of the first record for which `is_late` holds; the records are partitioned by it.
template <class Late>
std::uint64_t first_late(int fd, Late is_late) {
  std::uint64_t low = 0;
  for (std::uint64_t high = records_in(fd); low < high;) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto record = record_at(fd, middle);
    if (record && !is_late(*record)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The older file, then the newer one: together one sequence of records.
std::array<UniqueFd, 2> both_files(int folder, const std::string& log) {
  return {open_log_file(folder, log + ".times.1", O_RDONLY),
          open_log_file(folder, log + ".times", O_RDONLY)};
}

// Returns at most `max` records that cover the bytes [begin, end): the last one at or before begin,
// and all inside.
std::vector<LogTime> log_times(int folder, const std::string& log, std::uint64_t begin,
                               std::uint64_t end, std::size_t max) {
  std::vector<LogTime> found;
  std::optional<LogTime> before;
  for (const UniqueFd& file : both_files(folder, log)) {
    const std::uint64_t records = records_in(file.get());
    std::uint64_t index =
        first_late(file.get(), [&](const LogTime& one) { return one.offset > begin; });
    if (index > 0) before = record_at(file.get(), index - 1);
    for (; index < records && found.size() + 1 < max; ++index) {
      const auto record = record_at(file.get(), index);
      if (!record || record->offset >= end) break;
      found.push_back(*record);
    }
  }
  if (before) found.insert(found.begin(), *before);
  return found;
}

// Returns the offset of the first bytes that are known to be written at `unix_ms` or later, or the
// largest offset when there are none.
std::uint64_t log_offset_at(int folder, const std::string& log, std::int64_t unix_ms) {
  for (const UniqueFd& file : both_files(folder, log)) {
    const std::uint64_t index =
        first_late(file.get(), [&](const LogTime& one) { return one.unix_ms >= unix_ms; });
    const auto record = record_at(file.get(), index);
    if (record) return record->offset;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

// A lock on a folder. A writer holds it during a rotation, a reader while it opens the files.
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
  const UniqueFd fd = open_log_file(folder, name + ".base", O_RDONLY);
  char digits[32];
  const ssize_t size = fd ? ::read(fd.get(), digits, sizeof digits) : 0;
  std::uint64_t base = 0;
  if (size > 0) std::from_chars(digits, digits + size, base);
  return base;
}

// Opens the folder that holds the log.
Result<FolderEntry> open_log(const Root& root, const std::string& path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  return open_parent(root, safe);
}

}  // namespace

LogTimesWriter::LogTimesWriter(int folder, const std::string& log)
    : fd_(open_log_file(folder, log + ".times", O_RDWR | O_CREAT | O_APPEND)) {
  const std::uint64_t records = records_in(fd_.get());
  if (fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(records * kRecordBytes)) != 0) fd_.reset();
  if (records == 0) return;
  if (const auto last = record_at(fd_.get(), records - 1)) last_ms_ = last->unix_ms;
}

void LogTimesWriter::note(std::uint64_t offset, std::int64_t unix_ms) {
  if (!fd_ || (unix_ms < last_ms_ + kTimeStepMs && !fresh_)) return;
  fresh_ = false;
  last_ms_ = std::max(last_ms_, unix_ms);
  std::array<std::byte, kRecordBytes> raw{};
  store_le(raw.data(), offset);
  store_le(raw.data() + 8, last_ms_);
  // A partial record would shift all later ones, so this file gets no more records: times may be
  // lost, log lines may not.
  if (::write(fd_.get(), raw.data(), raw.size()) != static_cast<ssize_t>(raw.size())) fd_.reset();
}

void LogTimesWriter::rotate(int folder, const std::string& log) {
  ::renameat(folder, (log + ".times").c_str(), folder, (log + ".times.1").c_str());
  fd_ = open_log_file(folder, log + ".times", O_RDWR | O_CREAT | O_APPEND | O_TRUNC);
  fresh_ = true;
}

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
    return;  // keeps appending to the current file
  }
  ::renameat(folder, temporary.c_str(), folder, (entry_.name + ".base").c_str());
  fd_ = open_log_file(folder, entry_.name, O_WRONLY | O_CREAT | O_APPEND);
  times_.rotate(folder, entry_.name);
  base_ += size_;
  size_ = 0;
}

Result<FilePart> read_part(const Root& root, const std::string& path, std::uint64_t offset,
                           std::uint32_t max_bytes, std::int64_t since_unix_ms) {
  PADDLE_TRY(const FolderEntry entry, open_log(root, path));
  const int folder = entry.folder.get();
  const std::string& name = entry.name;
  // Files below proc/ are not rotated, and a running process's supervisor holds the lock on that
  // folder: locking it would block.
  std::optional<FolderLock> lock;
  if (path.find("/proc/") == std::string::npos) lock.emplace(folder, LOCK_SH);
  const UniqueFd current = open_log_file(folder, name, O_RDONLY);
  if (!current) return system_error(Errc::kData, "open " + path);
  const UniqueFd before = open_log_file(folder, name + ".1", O_RDONLY);
  const std::uint64_t base = base_of(folder, name);
  const std::uint64_t before_size = std::min(size_of(before), base);
  FilePart part;
  part.size = base + size_of(current);
  if (offset > part.size) offset = 0;
  offset = std::max(offset, base - before_size);
  if (since_unix_ms > 0) {
    offset = std::clamp(log_offset_at(folder, name, since_unix_ms), offset, part.size);
  }
  const bool old = offset < base;
  const std::uint64_t left = old ? base - offset : part.size - offset;
  part.data.resize(std::min<std::uint64_t>({left, max_bytes, kFilePartBytesMax}));
  const std::uint64_t at = old ? size_of(before) - (base - offset) : offset - base;
  const ssize_t got = ::pread((old ? before : current).get(), part.data.data(), part.data.size(),
                              static_cast<off_t>(at));
  if (got < 0) return system_error(Errc::kData, "read " + path);
  part.data.resize(static_cast<std::size_t>(got));
  part.times = log_times(folder, name, offset, offset + part.data.size(), kLogTimesMax);
  // The part ends where the first record that is left out begins.
  if (part.times.size() + 1 >= kLogTimesMax && part.times.back().offset > offset) {
    part.data.resize(part.times.back().offset - offset);
  }
  part.next_offset = offset + part.data.size();
  return part;
}

std::int64_t last_written(const Root& root, const std::string& path) {
  const auto entry = open_log(root, path);
  if (!entry) return 0;
  constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();
  const auto times = log_times(entry->folder.get(), entry->name, kEnd, kEnd, 1);
  return times.empty() ? 0 : times.back().unix_ms;
}

}  // namespace paddle::agent
