#include "proto/request_stream.h"

#include <poll.h>

#include <utility>

#include "proto/agent.pb.h"

namespace paddle {
namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

bool is_ping(const Result<Frame>& frame) {
  return frame && frame->header.type == wire::agent::AGENT_PING;
}

}  // namespace

RequestStream::RequestStream(int fd, Duration silence_max)
    : fd_(fd), silence_max_(silence_max), heard_at_(now()) {}

Result<Frame> RequestStream::read(TimePoint deadline) {
  auto frame = read_frame(fd_, kAgentPayloadBytesMax, deadline);
  heard_at_ = now();
  return frame;
}

Result<Frame> RequestStream::next() {
  if (next_) return *std::exchange(next_, std::nullopt);
  for (;;) {
    // Not from heard_at_ on: nothing was read while the last request was answered.
    auto frame = read(now() + silence_max_);
    if (!is_ping(frame)) return frame;
  }
}

bool RequestStream::has_next() {
  pollfd item{fd_, POLLIN, 0};
  while (!next_ && ::poll(&item, 1, 0) > 0) {
    auto frame = read(now() + kFrameDeadline);
    if (!is_ping(frame)) next_ = std::move(frame);
  }
  if (!next_ && now() >= gone_at()) {
    next_ = Error{Errc::kUnreachable, "the controller is silent", ""};
  }
  return next_.has_value();
}

}  // namespace paddle
