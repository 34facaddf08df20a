#include "proto/frame_stream.h"

#include <fcntl.h>

namespace paddle {

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return system_error(Errc::kFailed, "fcntl O_NONBLOCK");
  }
  return {};
}

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

}  // namespace paddle
