// The requests that arrive at the agent's end of a channel, in order.
#pragma once

#include <optional>

#include "proto/frame_stream.h"

namespace paddle {

// A controller sends AGENT_PING this often, whatever else it does, so that an agent knows a
// connection that was cut without an end: after so long a silence the controller has gone.
constexpr Duration kAgentPingEvery = std::chrono::seconds(20);
constexpr Duration kAgentSilenceMax = std::chrono::minutes(2);
static_assert(kAgentSilenceMax >= 4 * kAgentPingEvery);

class RequestStream {
 public:
  // `fd` is non-blocking and stays the caller's.
  RequestStream(int fd, Duration silence_max);

  // Waits for a request; pings are none. kUnreachable when the controller has gone.
  Result<Frame> next();

  // For work that ends with the next request or the controller. True when next() has an answer;
  // reads what has arrived at fd(). To be asked when fd() is readable, and at gone_at().
  bool has_next();
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
