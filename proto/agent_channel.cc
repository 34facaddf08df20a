#include "proto/agent_channel.h"

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

Status write_frame(int fd, const FrameHeader& header, ByteSpan head, ByteSpan tail,
                   TimePoint deadline) {
  const FrameHeaderBytes bytes = encode_header(header, head, tail);
  Bytes front;
  front.reserve(bytes.size() + head.size());
  front.insert(front.end(), bytes.begin(), bytes.end());
  front.insert(front.end(), head.begin(), head.end());
  PADDLE_TRY_STATUS(write_all(fd, front, deadline));
  return write_all(fd, tail, deadline);
}

Result<Frame> read_frame(int fd, std::size_t payload_bytes_max, TimePoint deadline) {
  FrameHeaderBytes bytes;
  const std::span<std::byte> whole(bytes);
  PADDLE_TRY_STATUS(read_exact(fd, whole.first(1), deadline));
  const TimePoint end = TimePoint(std::chrono::steady_clock::now()) + kFrameDeadline;
  PADDLE_TRY_STATUS(read_exact(fd, whole.subspan(1), end));
  PADDLE_TRY(const DecodedHeader decoded, decode_header(bytes, payload_bytes_max));
  Frame frame;
  frame.header = decoded.header;
  frame.head.resize(decoded.head_bytes);
  frame.tail.resize(decoded.tail_bytes);
  const auto head = std::as_writable_bytes(std::span(frame.head));
  PADDLE_TRY_STATUS(read_exact(fd, head, end));
  PADDLE_TRY_STATUS(read_exact(fd, frame.tail, end));
  PADDLE_TRY_STATUS(check_payload(decoded, head, frame.tail));
  return frame;
}

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
    // Starts from now(), not from heard_at_: nothing was read while the last request was answered.
    auto frame = read(now() + silence_max_);
    if (!is_ping(frame)) return frame;
  }
}

bool RequestStream::has_next(const std::function<bool(const Frame&)>& takes) {
  pollfd item{fd_, POLLIN, 0};
  while (!next_ && ::poll(&item, 1, 0) > 0) {
    auto frame = read(now() + kFrameDeadline);
    const bool is_taken = frame && takes && takes(*frame);
    if (!is_ping(frame) && !is_taken) next_ = std::move(frame);
  }
  if (!next_ && now() >= gone_at()) {
    next_ = Error{Errc::kUnreachable, "the controller sent nothing before the deadline", ""};
  }
  return next_.has_value();
}

}  // namespace paddle
