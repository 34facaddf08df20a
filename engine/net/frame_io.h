// Frames out of a byte stream and into it, without blocking and without a copy of large tails.
#pragma once

#include <deque>
#include <optional>

#include "engine/net/socket.h"
#include "proto/frame.h"

namespace paddle::net {

// Bytes in, frames out. A tail longer than what is buffered is read straight into its Frame.
class FrameReader {
 public:
  FrameReader(std::size_t buffer_bytes, std::size_t payload_bytes_max);
  // From the next frame on; buffer_bytes must not shrink.
  void set_limits(std::size_t buffer_bytes, std::size_t payload_bytes_max);

  // Where the next bytes go: never empty once next() has returned no frame. Follow with commit().
  std::span<std::byte> space();
  void commit(std::size_t count);
  // The next whole frame, or nothing until more bytes are committed. Errors (decode_header,
  // check_payload) are final.
  Result<std::optional<Frame>> next();

 private:
  std::size_t buffered() const { return end_ - begin_; }
  Status start_frame();

  Bytes buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t payload_bytes_max_;
  std::optional<DecodedHeader> decoded_;  // of the frame being read
  Frame frame_;
  std::size_t head_filled_ = 0;
  std::size_t tail_filled_ = 0;
};

// Frames waiting to be written, gathered into as few writes as the stream takes.
class FrameWriter {
 public:
  void push(Frame&& frame);
  std::size_t queued_bytes() const { return queued_bytes_; }
  bool empty() const { return queue_.empty(); }
  // Writes what the stream takes now; true when nothing is left.
  Result<bool> flush(Stream& stream);

 private:
  struct Entry {
    FrameHeaderBytes header;
    Frame frame;
  };
  void consume(std::size_t count);

  std::deque<Entry> queue_;
  std::size_t written_ = 0;  // bytes of the first entry
  std::size_t queued_bytes_ = 0;
};

}  // namespace paddle::net
