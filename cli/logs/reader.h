// A reader of a growing file on a node, in whole lines with the time each was written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/logs/metrics_line.h"
#include "remote/agent_client.h"

namespace paddle::cli {

constexpr std::uint32_t kLogChunkBytes = 256U << 10U;
constexpr std::size_t kLogLineBytesMax = 64U << 10U;  // a longer line is shown in pieces

struct LogLine {
  std::int64_t unix_ms = 0;  // of its first byte, by the node's clock; 0: not known
  std::string text;
};

// Reads a file in whole lines. A carriage return begins a line anew, as on a terminal: of a
// progress bar, which writes its states over each other, the newest one is the line.
class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}

  // The lines completed since the last call, from at most one chunk. A line of ours stands for
  // bytes that rotation removed before they were read.
  Result<std::vector<LogLine>> poll(remote::AgentClient& client);
  // The text after the last newline, once the process that wrote it is gone.
  std::optional<LogLine> rest();
  // The same while it may still grow, which it does nevertheless; null when there is none.
  const LogLine* unfinished() const;
  // Whether that is a state of a progress bar: a carriage return stands before or behind it.
  bool is_overwritten() const { return is_overwritten_; }
  // Starts at the last `lines` lines within the last `bytes`, instead of at the beginning.
  Result<std::vector<LogLine>> tail(remote::AgentClient& client, std::size_t lines,
                                    std::uint64_t bytes = kLogChunkBytes);
  // Starts at the first line that was certainly written at that time or later.
  Result<std::vector<LogLine>> since(remote::AgentClient& client, std::int64_t unix_ms);
  // The last call reached the end that the file had when the calls since the last end began: a file
  // that grows faster than it is read has one, too.
  bool at_end() const { return at_end_; }

 private:
  std::vector<LogLine> take_lines(const remote::LogChunk& chunk);
  void take_partial(std::vector<LogLine>& lines);
  void add_text(std::string_view text, std::int64_t unix_ms);

  std::string path_;
  std::uint64_t offset_ = 0;
  LogLine partial_;
  bool is_returned_ = false;     // the next text stands in place of partial_
  bool is_overwritten_ = false;  // as partial_ does in place of another
  bool skip_line_ = false;       // offset_ was set to the middle of a line
  std::optional<std::uint64_t> round_end_;
  bool at_end_ = false;
};

constexpr std::uint64_t kMetricsBytesMax = 4U << 20U;  // the newest, of a job's metrics
// The lines of metrics among the last `bytes` of such a file; none where it is missing.
std::vector<MetricsLine> read_metrics(remote::AgentClient& client, const std::string& path,
                                      std::uint64_t bytes);

}  // namespace paddle::cli
