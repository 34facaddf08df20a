// A connection between two ranks of a group, over which both sides may send at any time. Its calls
// never block, because one thread serves the connections to all ranks.
#pragma once

#include "engine/net/frame_io.h"
#include "engine/net/lent_array.h"
#include "engine/net/ring_stream.h"
#include "engine/net/striped_stream.h"

namespace paddle::net::peer {

constexpr std::uint32_t kLanesMax = 16;  // lanes of one connection

// A socket and the stream over it, which may be sealed by TLS.
struct Lane {
  UniqueFd fd;
  std::unique_ptr<Stream> stream;
};

// The identities of both ends, proven by their handshake.
struct Ends {
  std::uint64_t job_tag = 0;
  NodeId self;
  std::uint32_t incarnation = 0;
  NodeId peer = {};
  std::uint32_t peer_incarnation = 0;
};

class Connection {
 public:
  // `reader` may already contain frames that arrived right behind the handshake. With
  // `trusts_payloads` neither side computes payload checksums.
  Connection(Lane first, RingStream* ring, FrameReader reader, const Ends& ends,
             bool trusts_payloads);
  // Adds these lanes to the connection, in their order. Both ends must do so before they send.
  void widen(std::vector<Lane> others);

  const Ends& ends() const { return ends_; }
  std::size_t lanes() const { return sockets_.size(); }
  int descriptor(std::size_t lane) const { return sockets_[lane].fd.get(); }
  // The descriptors to poll: for the next byte to read, and to write the next byte.
  int reads_from() const { return descriptor(striped_ == nullptr ? 0 : striped_->reads_from()); }
  int writes_to() const { return descriptor(striped_ == nullptr ? 0 : striped_->writes_to()); }

  // Lends an array to the peer, which then reads long tails within it in place. Only for shared
  // memory.
  void lend(std::shared_ptr<const LentArray> array) { lent_.push_back(std::move(array)); }

  // Sending: one frame is written at a time, and frames finish in order. A frame is finished once
  // it is written; a frame with a lent tail once the peer has read the tail or let_go() was called.
  // `tail` must stay valid until then.
  bool can_begin() const { return left_ == 0 && unfinished_.size() < kUnfinishedMax; }
  bool is_writing() const { return left_ > 0 || !unfinished_.empty(); }
  std::size_t left() const { return left_; }  // unwritten bytes of the current frame
  void begin(FrameHeader header, std::string head, ByteSpan tail);
  // Writes as much as the stream accepts now. Returns the number of frames finished since the last
  // call.
  Result<std::size_t> flush();

  // Receiving: returns the number of bytes read, 0 if it would block. Do not call it while peek()
  // shows a frame that the caller does not want yet. `likely`: memory for the tail of the frame
  // that the caller expects next.
  Result<std::size_t> read(std::span<std::byte> likely = {});
  // The header of the frame that next() will return, or null until it has arrived. kAuth if its
  // identity is not the proven one.
  Result<const DecodedHeader*> peek();
  Result<std::optional<Frame>> next(const TailPlace& place);
  // Whether peek() has shown a frame that next() has not returned. next() drops a frame with a lent
  // tail if the peer has revoked the tail, or has gone before its array could be opened; of the
  // frames behind it the caller may then use only an abort.
  bool is_in_frame() const { return taking_.has_value() || reader_.is_in_frame(); }

  // Stops reading and writing memory of the caller: copies the unsent rest of the frame being
  // written, receives the rest of the frame being read into Frame::tail, and revokes lent tails, so
  // that the peer drops a tail that it is reading.
  void let_go();

  // Waiting: call prepare_sleep() before a sleep until a descriptor is ready, and wake() after it.
  // prepare_sleep() returns false if there is no need to sleep.
  bool prepare_sleep(bool wants_data);
  void wake();
  // Whether a read would return bytes although the descriptor is not readable.
  bool has_read_ahead() const { return stream_->has_read_ahead(); }
  // Whether the connection uses shared memory; its descriptor then shows only wake-up bytes and the
  // end of the connection.
  bool is_memory() const { return ring_ != nullptr; }
  // Ends sending; the peer reads the end of the stream after all bytes that were sent.
  void end();
  // Whether the peer has closed the connection; bytes that it sent before may still be read.
  bool is_closed() const;
  // kUnreachable if a lane is broken and the lane to be read next has no bytes left, so that a read
  // would not find the error.
  Status check_lanes() const;
  // The longest time, over all lanes, for which the peer's kernel has acknowledged nothing although
  // sent bytes are unacknowledged; zero if none are. It is measured from the first call that saw
  // the condition. A stopped process does not count, because its kernel still acknowledges.
  Duration unacknowledged(TimePoint now);

 private:
  // A received frame whose lent tail is not copied yet.
  struct Taking {
    DecodedHeader decoded;
    Result<ByteSpan> tail;
  };
  static constexpr std::size_t kUnfinishedMax = 4;
  Result<const DecodedHeader*> begin_taking(const DecodedHeader& decoded);
  Result<std::size_t> finish();

  struct Socket {
    UniqueFd fd;
    std::optional<TimePoint> unacknowledged_since = {};
  };

  std::vector<Socket> sockets_;  // by lane
  std::unique_ptr<Stream> stream_;
  RingStream* ring_;                  // stream_ if it is shared memory, else null
  StripedStream* striped_ = nullptr;  // stream_ if it has several lanes, else null
  FrameReader reader_;
  Ends ends_;
  bool trusts_payloads_;
  // The frame being written.
  FrameHeaderBytes header_{};
  std::string head_;
  ByteSpan tail_;
  Bytes kept_;            // copy of the unsent tail after let_go()
  std::size_t left_ = 0;  // bytes
  bool is_lent_ = false;
  // The frames that are written but not finished, oldest first: whether the tail is lent.
  std::deque<bool> unfinished_;
  std::size_t taken_ = 0;  // lent tails of these frames that the peer has read
  std::vector<std::shared_ptr<const LentArray>> lent_;
  bool is_revoked_ = false;  // let_go() has revoked all lent tails
  ArraysOfPeer arrays_;
  std::optional<Taking> taking_;
};

}  // namespace paddle::net::peer
