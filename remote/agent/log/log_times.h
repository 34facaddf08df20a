// When each part of a log was written: `<log>.times`, 16-byte records {u64 offset, i64 unix ms},
// both ascending. A program's own lines need not carry a time, so this is what merges logs.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"

namespace paddle::agent {

struct LogTime {
  std::uint64_t offset = 0;  // of the log, from its first byte ever
  std::int64_t unix_ms = 0;  // when the bytes from there on were written
};

// Bytes written within this of the last record get none of their own.
constexpr std::int64_t kLogTimeStepMs = 10;

class LogTimesWriter {
 public:
  LogTimesWriter() = default;
  // In the folder of the log; what a crash left half written is cut off.
  LogTimesWriter(int folder, const std::string& log);

  // Before the bytes at `offset` are written. A clock set back is as if it stood still.
  void note(std::uint64_t offset, std::int64_t unix_ms);
  // The log goes to `<log>.1`, its times to `<log>.times.1`.
  void rotate(int folder, const std::string& log);

 private:
  UniqueFd fd_;
  std::int64_t last_ms_ = 0;
  bool fresh_ = false;  // the first bytes of a file have a record in its own times
};

// The records that tell of the bytes [begin, end): the last one at or before begin, and all inside,
// at most max.
std::vector<LogTime> log_times(int folder, const std::string& log, std::uint64_t begin,
                               std::uint64_t end, std::size_t max);
// The offset of the first bytes known to be written at `unix_ms` or later; the end of all offsets
// when there are none.
std::uint64_t log_offset_at(int folder, const std::string& log, std::int64_t unix_ms);

}  // namespace paddle::agent
