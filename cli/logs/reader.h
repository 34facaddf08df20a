// Whole lines of a file that grows on a node, with the time each was written.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

constexpr std::uint32_t kLogChunkBytes = 256U << 10U;
constexpr std::size_t kLogLineBytesMax = 64U << 10U;  // a longer line is shown in pieces

struct LogLine {
  std::int64_t unix_ms = 0;  // when it began to be written, by the node's clock; 0: not known
  std::string text;
};

class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}

  // The lines completed since the last call, at most about one chunk; a missing file has none yet.
  // What rotation took away before it was read is told by a line of ours.
  Result<std::vector<LogLine>> poll(remote::AgentClient& client);
  // What the file ends with after its last newline; for a process that is gone.
  std::optional<LogLine> rest();
  // Begins at the last `lines` lines, within the last `bytes`, instead of the beginning.
  Result<std::vector<LogLine>> tail(remote::AgentClient& client, std::size_t lines,
                                    std::uint64_t bytes = kLogChunkBytes);
  // Begins at the first line known to be written then or later; the same as poll from there on.
  Result<std::vector<LogLine>> since(remote::AgentClient& client, std::int64_t unix_ms);
  // Nothing was left beyond what poll returned.
  bool at_end() const { return at_end_; }

 private:
  std::vector<LogLine> take_lines(const remote::LogChunk& chunk);
  void take_partial(std::vector<LogLine>& lines);

  std::string path_;
  std::uint64_t offset_ = 0;
  LogLine partial_;
  bool skip_line_ = false;  // the beginning of the line at offset_ was not read
  bool at_end_ = false;
};

}  // namespace paddle::cli
