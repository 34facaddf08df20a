// Frames out of a byte stream and into it, without blocking and without a copy of large tails.
#pragma once

#include <deque>
#include <optional>

#include "engine/net/link.h"
#include "engine/net/socket.h"
#include "proto/frame.h"

namespace paddle::net {

// Bytes in, frames out. A large tail is read straight to where it belongs, and summed while it is
// in the cache.
class FrameReader {
 public:
  FrameReader(std::size_t buffer_bytes, std::size_t payload_bytes_max);
  // From the next frame on; buffer_bytes must not shrink.
  void set_limits(std::size_t buffer_bytes, std::size_t payload_bytes_max);

  // Where the next bytes go: never empty once next() has returned no frame. Follow with commit().
  std::span<std::byte> space();
  void commit(std::size_t count);
  // The next whole frame, or nothing until more bytes are committed. Errors (decode_header, a wrong
  // payload CRC) are final. A frame whose tail was placed has an empty one.
  Result<std::optional<Frame>> next(const TailPlace& place = TailPlace());
  // Every byte that was committed belongs to a frame that is out.
  bool is_idle() const { return !decoded_ && buffered() == 0; }
  // Bytes that are still to come go to places that a caller named.
  bool is_placing() const { return is_placed_; }

 private:
  std::size_t buffered() const { return end_ - begin_; }
  Status start_frame();
  void start_tail(const TailPlace& place);
  bool reads_in_place() const;
  bool has_tail_left() const { return place_ < places_.size(); }
  void take_tail(std::size_t count);  // that many bytes of the current place are there

  Bytes buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t payload_bytes_max_;
  std::optional<DecodedHeader> decoded_;  // of the frame being read
  Frame frame_;
  std::size_t head_filled_ = 0;
  bool is_in_tail_ = false;
  bool is_placed_ = false;
  std::vector<std::span<std::byte>> places_;  // of the tail
  std::size_t place_ = 0;                     // the one being filled
  std::size_t place_filled_ = 0;
  std::uint32_t payload_crc_ = 0;
};

// Frames waiting to be written, gathered into as few writes as the stream takes.
class FrameWriter {
 public:
  // `view` follows the frame's tail and must stay until it is written or keep_views() is called.
  void push(Frame&& frame, ByteSpan view = {});
  std::size_t queued_bytes() const { return queued_bytes_; }
  bool empty() const { return queue_.empty(); }
  // Writes what the stream takes now; true when nothing is left.
  Result<bool> flush(Stream& stream);
  // Copies the views that are not written yet.
  void keep_views();

 private:
  struct Entry {
    FrameHeaderBytes header;
    Frame frame;
    ByteSpan view;
    std::size_t bytes() const {
      return header.size() + frame.head.size() + frame.tail.size() + view.size();
    }
  };
  void consume(std::size_t count);

  std::deque<Entry> queue_;
  std::size_t written_ = 0;  // bytes of the first entry
  std::size_t queued_bytes_ = 0;
};

}  // namespace paddle::net
