// A process's log: bounded on disk, and for its readers one sequence of bytes across rotations.
// `<log>` is written, `<log>.1` is what was written before it, `<log>.base` is the offset of
// `<log>`'s first byte.
#pragma once

#include "remote/agent/log/log_times.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

constexpr std::uint64_t kLogBytesMax = 64U << 20U;
constexpr std::uint32_t kLogReadBytesMax = 1U << 20U;

class LogWriter {
 public:
  // Appends to what is there.
  static Result<LogWriter> open(const Root& root, const std::string& path,
                                std::uint64_t bytes_max = kLogBytesMax);
  // A full disk loses log lines, never the process. unix_ms: now, for the readers' merging.
  void append(ByteSpan data, std::int64_t unix_ms);

 private:
  LogWriter(Place place, UniqueFd fd, std::uint64_t size, std::uint64_t bytes_max);
  void rotate();

  Place place_;
  UniqueFd fd_;
  LogTimesWriter times_;
  std::uint64_t base_;  // offset of the file's first byte
  std::uint64_t size_;
  std::uint64_t bytes_max_;
};

struct LogPart {
  Bytes data;
  std::uint64_t next_offset = 0;
  std::uint64_t size = 0;  // offset of the log's end
  std::vector<LogTime> times;
};
constexpr std::size_t kLogTimesMax = 2000;  // of a part; more of them make it shorter

// From `offset`, or from the oldest byte still there; from the start when the log was made anew.
// since_unix_ms: and nothing known to be written before it.
Result<LogPart> read_log(const Root& root, const std::string& path, std::uint64_t offset,
                         std::uint32_t max_bytes, std::int64_t since_unix_ms = 0);

// When the log was last written to, as far as its times tell; 0: never.
std::int64_t last_written(const Root& root, const std::string& path);

}  // namespace paddle::agent
