#include "remote/agent/log/log_times.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace paddle::agent {
namespace {

constexpr std::size_t kRecordBytes = 16;

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

// The older file, then the newer: one sequence.
std::array<UniqueFd, 2> both_files(int folder, const std::string& log) {
  return {open_log_file(folder, log + ".times.1", O_RDONLY | O_NONBLOCK),
          open_log_file(folder, log + ".times", O_RDONLY | O_NONBLOCK)};
}

}  // namespace

UniqueFd open_log_file(int folder, const std::string& name, int flags) {
  return UniqueFd(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
}

LogTimesWriter::LogTimesWriter(int folder, const std::string& log)
    : fd_(open_log_file(folder, log + ".times", O_RDWR | O_CREAT | O_APPEND)) {
  const std::uint64_t records = records_in(fd_.get());
  if (fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(records * kRecordBytes)) != 0) fd_.reset();
  if (records == 0) return;
  if (const auto last = record_at(fd_.get(), records - 1)) last_ms_ = last->unix_ms;
}

void LogTimesWriter::note(std::uint64_t offset, std::int64_t unix_ms) {
  if (!fd_ || (unix_ms < last_ms_ + kLogTimeStepMs && !fresh_)) return;
  fresh_ = false;
  last_ms_ = std::max(last_ms_, unix_ms);
  std::array<std::byte, kRecordBytes> raw{};
  store_le(raw.data(), offset);
  store_le(raw.data() + 8, last_ms_);
  // Half a record would shift all later ones. Times may be lost, log lines may not.
  if (::write(fd_.get(), raw.data(), raw.size()) != static_cast<ssize_t>(raw.size())) fd_.reset();
}

void LogTimesWriter::rotate(int folder, const std::string& log) {
  ::renameat(folder, (log + ".times").c_str(), folder, (log + ".times.1").c_str());
  fd_ = open_log_file(folder, log + ".times", O_RDWR | O_CREAT | O_APPEND | O_TRUNC);
  fresh_ = true;
}

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

std::uint64_t log_offset_at(int folder, const std::string& log, std::int64_t unix_ms) {
  for (const UniqueFd& file : both_files(folder, log)) {
    const std::uint64_t index =
        first_late(file.get(), [&](const LogTime& one) { return one.unix_ms >= unix_ms; });
    const auto record = record_at(file.get(), index);
    if (record) return record->offset;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace paddle::agent
