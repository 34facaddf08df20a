// The end of a process's log in memory: its node is asked once a second, for any number of viewers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/dashboard/live.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

constexpr std::size_t kLogPartBytesMax = 256U << 10U;  // of one answer
constexpr std::size_t kLogFirstBytes = 64U << 10U;     // of an answer to a viewer without an offset
constexpr std::size_t kLogWindowBytes = 512U << 10U;   // kept in memory
constexpr auto kLogReadEvery = std::chrono::seconds(1);

class LogTail {
 public:
  // path: of a file below the node's root.
  explicit LogTail(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // See Live::log(). Reads from the node if the last read is older than kLogReadEvery, or if the
  // viewer wants what is no longer in memory. is_over: the process has ended, so text without a
  // newline at the end is a line as well.
  Result<LogPart> part(remote::AgentClient& client, std::optional<std::uint64_t> offset,
                       bool is_over, TimePoint now);

 private:
  Status read_new(remote::AgentClient& client);
  // The whole lines at the begin of `text`, which begins at `offset`. reaches_end: the file has no
  // more.
  LogPart lines_of(std::string_view text, std::uint64_t offset, bool reaches_end,
                   bool is_over) const;
  std::uint64_t end() const { return begin_ + window_.size(); }

  std::string path_;
  std::uint64_t begin_ = 0;  // offset of window_
  std::string window_;       // the end of what was read
  std::uint64_t size_ = 0;   // of the file
  std::optional<TimePoint> read_at_;
};

}  // namespace paddle::cli
