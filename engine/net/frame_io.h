// Non-blocking frame reader and writer of a byte stream, without copies of large tails.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "engine/net/link.h"
#include "engine/net/socket.h"
#include "proto/frame.h"

namespace paddle::net {

// Turns bytes into frames. A large tail is read straight into place and checksummed while it is in
// the cache.
class FrameReader {
 public:
  FrameReader(std::size_t buffer_bytes, std::size_t payload_bytes_max);
  // Applies from the next frame on; buffer_bytes must not shrink.
  void set_limits(std::size_t buffer_bytes, std::size_t payload_bytes_max);

  // From now on payloads are not checked: the stream proves what it brings, or it never leaves the
  // host.
  void trust_payloads() { checks_payloads_ = false; }

  // Space for the next bytes, to be followed by commit(). Not empty once next() has no frame.
  std::span<std::byte> space();
  // The same in two parts where a frame begins: one for its header, and `likely`, where the tail
  // will go if it is the frame that the caller expects. Another frame is not lost, but `likely` may
  // be written to. It must stay until next() has a frame, or let_go() is called; and the place of a
  // tail either begins where `likely` does, or is apart from it.
  std::array<std::span<std::byte>, 2> space(std::span<std::byte> likely);
  void commit(std::size_t count);
  // The next whole frame, or nothing until more bytes are committed. Errors (decode_header, a wrong
  // payload CRC) are final. A frame whose tail was placed elsewhere has an empty tail.
  Result<std::optional<Frame>> next(const TailPlace& place = TailPlace());
  // The header of the frame that next() will return, once it is there; null before. Until next() is
  // called, a small frame's bytes stay in the buffer, and so may those of frames behind it.
  Result<const DecodedHeader*> peek();
  // Committed bytes that no frame has taken yet, beside those in `likely`.
  std::size_t buffered() const { return end_ - begin_; }
  // The header of a frame is known that next() has not returned.
  bool is_in_frame() const { return decoded_.has_value(); }
  // All committed bytes belong to frames that next() has returned.
  bool is_idle() const { return !decoded_ && buffered() == 0; }
  // Bytes yet to come go to memory that a TailPlace named.
  bool is_placing() const { return is_placed_; }
  // Writes no more to that memory, nor to `likely`: the frame's own tail takes the rest.
  void let_go();

 private:
  Status start_frame();
  void buffer_early();
  void place_early();
  void start_tail(const TailPlace& place);
  bool reads_in_place() const;
  bool has_tail_left() const { return place_ < places_.size(); }
  void take_tail(std::size_t count);  // `count` bytes of the current place were filled

  std::size_t buffer_bytes_;  // of reads
  Bytes buffer_;              // larger for a while when other frames came than the likely one
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t payload_bytes_max_;
  std::optional<DecodedHeader> decoded_;  // of the frame being read
  Frame frame_;
  std::size_t head_filled_ = 0;
  bool is_in_tail_ = false;
  bool is_placed_ = false;
  bool checks_payloads_ = true;
  std::vector<std::span<std::byte>> places_;  // of the tail
  std::size_t place_ = 0;                     // the one being filled
  std::size_t place_filled_ = 0;
  std::uint32_t payload_crc_ = 0;
  std::span<std::byte> likely_;  // the second part of the space that was given last
  ByteSpan early_;               // bytes in it, whose frame is not known yet
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
