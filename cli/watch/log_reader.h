// Reads a growing file on a node, in whole lines with the time at which each was written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/watch/metrics_line.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

constexpr std::uint32_t kLogChunkBytes = 256U << 10U;
constexpr std::size_t kLogLineBytesMax = 64U << 10U;  // a longer line is shown in pieces

struct LogLine {
  std::int64_t unix_ms = 0;  // time of its first byte, by the node's clock; 0: not known
  std::string text;
};

// Reads a file in whole lines. A carriage return restarts the line, as on a terminal: of a progress
// bar, which overwrites its states, the newest state is the line.
class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}

  // The lines completed since the last call, from at most one chunk. If rotation removed bytes
  // before they were read, a line about that replaces them.
  Result<std::vector<LogLine>> poll(remote::AgentClient& client);
  // The text after the last newline, when the process that wrote it has ended.
  std::optional<LogLine> rest();
  // The text after the last newline while the line may still grow; the text stays in the reader.
  // Null if there is none.
  const LogLine* unfinished() const;
  // Whether unfinished() is a state of a progress bar: a carriage return comes before or after it.
  bool is_overwritten() const { return is_overwritten_; }
  // Starts at the last `lines` lines within the last `bytes`, not at the beginning.
  Result<std::vector<LogLine>> tail(remote::AgentClient& client, std::size_t lines,
                                    std::uint64_t bytes = kLogChunkBytes);
  // Starts at the first line that was certainly written at that time or later.
  Result<std::vector<LogLine>> since(remote::AgentClient& client, std::int64_t unix_ms);
  // Whether the last call reached the end of the file. The end is fixed when a round of calls
  // begins, so a file that grows faster than it is read has an end, too.
  bool at_end() const { return at_end_; }

 private:
  std::vector<LogLine> take_lines(const remote::FilePart& chunk);
  void take_partial(std::vector<LogLine>& lines);
  void add_text(std::string_view text, std::int64_t unix_ms);

  std::string path_;
  std::uint64_t offset_ = 0;
  LogLine partial_;
  bool is_returned_ = false;     // the next text replaces partial_
  bool is_overwritten_ = false;  // partial_ has replaced or will be replaced
  bool skip_line_ = false;       // offset_ was set to the middle of a line
  std::optional<std::uint64_t> round_end_;
  bool at_end_ = false;
};

constexpr std::uint64_t kMetricsBytesMax = 4U << 20U;  // limit on a job's metrics; the newest lines
// The lines of metrics in the last `bytes` of a file; none if the file is missing.
std::vector<MetricsLine> read_metrics(remote::AgentClient& client, const std::string& path,
                                      std::uint64_t bytes);

}  // namespace paddle::cli
