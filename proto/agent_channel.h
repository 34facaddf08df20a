// The agent's channel: whole frames over a non-blocking stream descriptor, for programs that wait
// for one peer at a time, and the stream of requests at the agent's end.
#pragma once

#include <functional>
#include <optional>

#include "base/fd.h"
#include "proto/frame.h"

namespace paddle {

// The most time from a frame's first byte to its last, on any link.
constexpr Duration kFrameDeadline = std::chrono::seconds(120);

// More replies to the same request follow.
constexpr std::uint16_t kAgentFlagMore = 1;
constexpr std::size_t kAgentPayloadBytesMax = 2U << 20U;
constexpr std::size_t kAgentChunkBytes = 256U << 10U;
constexpr std::size_t kAgentBatchBytes =
    32U << 10U;  // repeated entries are split into heads of about this size

Status write_frame(int fd, const FrameHeader& header, ByteSpan head, ByteSpan tail,
                   TimePoint deadline);
// Waits for the first byte until `deadline`. kUnreachable "closed by peer" at the end of the
// stream; kData for a corrupt frame or one over payload_bytes_max, after which the stream is
// unusable.
Result<Frame> read_frame(int fd, std::size_t payload_bytes_max, TimePoint deadline);

// A controller sends AGENT_PING every kAgentPingEvery, whatever else it does. So an agent notices a
// connection that broke without being closed: after kAgentSilenceMax without a frame it takes the
// controller for gone.
constexpr Duration kAgentPingEvery = std::chrono::seconds(20);
constexpr Duration kAgentSilenceMax = std::chrono::minutes(2);
static_assert(kAgentSilenceMax >= 4 * kAgentPingEvery);

// The requests that arrive at the agent's end of a channel, in order.
class RequestStream {
 public:
  // `fd` is non-blocking; the caller owns it.
  RequestStream(int fd, Duration silence_max);

  // Waits for a request and skips pings. kUnreachable when the controller has gone.
  Result<Frame> next();

  // For work that ends at the next request or when the controller has gone. Reads what has arrived
  // at fd() and returns true if next() would return without waiting. Call it when fd() is readable,
  // and at gone_at(). takes: returns true for a frame about this work, which is then no request.
  bool has_next(const std::function<bool(const Frame&)>& takes = {});
  int fd() const { return fd_; }
  TimePoint gone_at() const { return heard_at_ + silence_max_; }

 private:
  Result<Frame> read(TimePoint deadline);

  int fd_;
  Duration silence_max_;
  TimePoint heard_at_;
  std::optional<Result<Frame>> next_;
};

}  // namespace paddle
