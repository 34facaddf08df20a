// Write times of the parts of a log, in `<log>.times`: 16-byte records {u64 offset, i64 unix ms},
// both ascending. Logs are merged by them, since a program's own lines need not carry a time.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"

namespace paddle::agent {

struct LogTime {
  std::uint64_t offset = 0;  // in the log, across rotations
  std::int64_t unix_ms = 0;  // time of writing of the bytes from there on
};

// Bytes written within this of the last record get none of their own.
constexpr std::int64_t kLogTimeStepMs = 10;

// Of a log's folder; never follows a symbolic link.
UniqueFd open_log_file(int folder, const std::string& name, int flags);

class LogTimesWriter {
 public:
  LogTimesWriter() = default;
  // `folder` holds the log. A record that a crash left incomplete is cut off.
  LogTimesWriter(int folder, const std::string& log);

  // Call before writing the bytes at `offset`. A clock that was set back counts as standing still.
  void note(std::uint64_t offset, std::int64_t unix_ms);
  // Renames the times of a log that became `<log>.1` to `<log>.times.1`.
  void rotate(int folder, const std::string& log);

 private:
  UniqueFd fd_;
  std::int64_t last_ms_ = 0;
  bool fresh_ = false;  // the first bytes of a file have a record in its own times
};

// The records that cover the bytes [begin, end): the last one at or before begin, and all inside;
// at most max.
std::vector<LogTime> log_times(int folder, const std::string& log, std::uint64_t begin,
                               std::uint64_t end, std::size_t max);
// The offset of the first bytes known to be written at `unix_ms` or later; the largest offset when
// there are none.
std::uint64_t log_offset_at(int folder, const std::string& log, std::int64_t unix_ms);

}  // namespace paddle::agent
