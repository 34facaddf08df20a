// Whole lines of a file that grows on a node.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

constexpr std::uint32_t kLogChunkBytes = 256U << 10U;
constexpr std::size_t kLogLineBytesMax = 64U << 10U;  // a longer line is shown in pieces

class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}

  // The lines completed since the last call, at most about one chunk; a missing file has none yet.
  Result<std::vector<std::string>> poll(remote::AgentClient& client);
  // What the file ends with after its last newline; for a process that is gone.
  std::string rest() { return std::exchange(partial_, {}); }
  // Begins at the last `lines` lines (within kLogChunkBytes) instead of the beginning.
  Result<std::vector<std::string>> tail(remote::AgentClient& client, std::size_t lines);
  // Nothing was left beyond what poll returned.
  bool at_end() const { return at_end_; }

 private:
  std::vector<std::string> take_lines(std::string data);

  std::string path_;
  std::uint64_t offset_ = 0;
  std::string partial_;
  bool at_end_ = false;
};

}  // namespace paddle::cli
