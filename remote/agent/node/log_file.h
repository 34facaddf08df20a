// A process's log: bounded on disk, one sequence of bytes across rotations for its readers.
// `<log>` contains the newest bytes, `<log>.1` the ones before, `<log>.base` the offset of
// `<log>`'s first byte. `<log>.times` contains the times of writing: 16-byte records {u64 offset,
// i64 unix ms}, both ascending. Logs are merged by these times, since a program's own lines need
// not carry a time.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

struct LogTime {
  std::uint64_t offset = 0;  // in the log, across rotations
  std::int64_t unix_ms = 0;  // time of writing of the bytes from there on
};

class LogTimesWriter {
 public:
  LogTimesWriter() = default;
  // `folder` holds the log. A record that a crash left incomplete is cut off.
  LogTimesWriter(int folder, const std::string& log);

  // Call before writing the bytes at `offset`. When the clock was set back, the last recorded time
  // is used.
  void note(std::uint64_t offset, std::int64_t unix_ms);
  // Renames the times of a log that became `<log>.1` to `<log>.times.1`.
  void rotate(int folder, const std::string& log);

 private:
  UniqueFd fd_;
  std::int64_t last_ms_ = 0;
  bool fresh_ = false;  // the next bytes need a record in the file that rotate() has created
};

constexpr std::uint64_t kLogBytesMax = 64U << 20U;
constexpr std::uint32_t kFilePartBytesMax = 1U << 20U;

class LogWriter {
 public:
  // Appends to an existing log.
  static Result<LogWriter> open(const Root& root, const std::string& path,
                                std::uint64_t bytes_max = kLogBytesMax);
  // When the disk is full, log lines are lost, but the process continues. unix_ms: the current
  // time.
  void append(ByteSpan data, std::int64_t unix_ms);

 private:
  LogWriter(FolderEntry entry, UniqueFd fd, std::uint64_t size, std::uint64_t bytes_max);
  void rotate();

  FolderEntry entry_;
  UniqueFd fd_;
  LogTimesWriter times_;
  std::uint64_t base_;  // offset of the file's first byte
  std::uint64_t size_;
  std::uint64_t bytes_max_;
};

struct FilePart {
  Bytes data;
  std::uint64_t next_offset = 0;
  std::uint64_t size = 0;  // offset of the file's end
  std::vector<LogTime> times;
};
constexpr std::size_t kLogTimesMax = 2000;  // per part; a part with more is cut short

// Reads a part of a file below root; a log and the file that it was rotated to are read as one.
// Reads from `offset`; from the oldest byte that is kept if that is later; from the start if the
// file was replaced by a shorter one. since_unix_ms: skips bytes that are known to be written
// earlier.
Result<FilePart> read_part(const Root& root, const std::string& path, std::uint64_t offset,
                           std::uint32_t max_bytes, std::int64_t since_unix_ms = 0);

// Time of the last write that `<log>.times` records; 0: none.
std::int64_t last_written(const Root& root, const std::string& path);

}  // namespace paddle::agent
