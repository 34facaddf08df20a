// Non-blocking frame reader and writer of a byte stream, without copies of large tails.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "engine/net/link.h"
#include "engine/net/socket.h"
#include "proto/frame.h"

namespace paddle::net {

// Turns bytes into frames. A large tail is read directly into its place, and its checksum is
// computed while it is in the cache.
class FrameReader {
 public:
  FrameReader(std::size_t buffer_bytes, std::size_t payload_bytes_max);
  // Applies from the next frame on; buffer_bytes must not shrink.
  void set_limits(std::size_t buffer_bytes, std::size_t payload_bytes_max);

  // Turns off the check of payload CRCs, for a stream that authenticates its bytes (TLS) or never
  // leaves the host.
  void trust_payloads() { checks_payloads_ = false; }

  // Space to read the next bytes into; then call commit(). Not empty after next() has returned no
  // frame.
  std::span<std::byte> space();
  // Where a frame begins, returns two parts: space for the header, and `likely`, the memory for the
  // tail of the frame that the caller expects. If another frame arrives, it is not lost, but
  // `likely` may have been overwritten. REQUIRES: `likely` stays valid until next() returns a frame
  // or let_go() is called; a place of a tail begins where `likely` begins, or does not overlap it.
  std::array<std::span<std::byte>, 2> space(std::span<std::byte> likely);
  void commit(std::size_t count);
  // The next complete frame, or nullopt until more bytes are committed. Errors (of decode_header(),
  // or a wrong payload CRC) are final. A frame whose tail went to memory from `place` has an empty
  // Frame::tail.
  Result<std::optional<Frame>> next(const TailPlace& place = TailPlace());
  // The header of the frame that next() will return, or null until the header has arrived. Until
  // next() is called, the bytes of a small frame stay in the buffer, possibly with bytes of the
  // frames behind it.
  Result<const DecodedHeader*> peek();
  // Committed bytes in the buffer that belong to no frame yet, without those in `likely`.
  std::size_t buffered() const { return end_ - begin_; }
  // Whether the header of a frame is decoded that next() has not returned yet.
  bool is_in_frame() const { return decoded_.has_value(); }
  // Whether all committed bytes belong to frames that next() has returned.
  bool is_idle() const { return !decoded_ && buffered() == 0; }
  // Whether the rest of the tail goes to memory from a TailPlace.
  bool is_placing() const { return is_placed_; }
  // Stops writing to that memory and to `likely`: the rest goes to Frame::tail.
  void let_go();

 private:
  Status start_frame();
  void buffer_early();
  void place_early();
  void start_tail(const TailPlace& place);
  bool reads_in_place() const;
  bool has_tail_left() const { return place_ < places_.size(); }
  void take_tail(std::size_t count);  // after `count` bytes of the current place were filled

  std::size_t buffer_bytes_;  // size of the buffer for reads
  Bytes buffer_;              // larger for a time if another frame than the expected one arrived
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t payload_bytes_max_;
  std::optional<DecodedHeader> decoded_;  // header of the frame being read
  Frame frame_;
  std::size_t head_filled_ = 0;
  bool is_in_tail_ = false;
  bool is_placed_ = false;
  bool checks_payloads_ = true;
  std::vector<std::span<std::byte>> places_;  // memory for the tail
  std::size_t place_ = 0;                     // index of the place being filled
  std::size_t place_filled_ = 0;
  std::uint32_t payload_crc_ = 0;
  std::span<std::byte> likely_;  // the second part that space() returned last
  ByteSpan early_;               // bytes in likely_ whose frame is not known yet
};

// Frames waiting to be written, gathered into as few writes as possible.
class FrameWriter {
 public:
  // `view` follows the frame's tail and must stay until it is written or keep_views() is called.
  void push(Frame&& frame, ByteSpan view = {});
  std::size_t queued_bytes() const { return queued_bytes_; }
  bool empty() const { return queue_.empty(); }
  // Writes as much as the stream accepts now. Returns true if nothing is left.
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
  std::size_t written_ = 0;  // bytes of the first entry that are written
  std::size_t queued_bytes_ = 0;
};

}  // namespace paddle::net
