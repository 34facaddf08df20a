// A connection between two ranks of a group, over which both sides speak whenever they like. It
// never blocks: the ranks of a group are served together.
#pragma once

#include "engine/net/frame_io.h"
#include "engine/net/peer/lent_array.h"
#include "engine/net/peer/striped_stream.h"
#include "engine/net/ring_stream.h"

namespace paddle::net::peer {

constexpr std::uint32_t kLanesMax = 16;  // of a connection

// A socket and the stream over it, which may be sealed.
struct Lane {
  UniqueFd fd;
  std::unique_ptr<Stream> stream;
};

// Both ends, as their handshake has proven them.
struct Ends {
  std::uint64_t job_tag = 0;
  NodeId self;
  std::uint32_t incarnation = 0;
  NodeId peer = {};
  std::uint32_t peer_incarnation = 0;
};

class Connection {
 public:
  // The reader may hold frames that came right behind the handshake. Where `trusts_payloads`, the
  // checksum of payloads is left out both ways.
  Connection(Lane first, RingStream* ring, FrameReader reader, const Ends& ends,
             bool trusts_payloads);
  // Carries the stream on these lanes too, in their order. Both ends do so before they send.
  void widen(std::vector<Lane> others);

  const Ends& ends() const { return ends_; }
  std::size_t lanes() const { return sockets_.size(); }
  int descriptor(std::size_t lane) const { return sockets_[lane].fd.get(); }
  // Those to wait at: for the next byte, and to write the next one.
  int reads_from() const { return descriptor(striped_ == nullptr ? 0 : striped_->reads_from()); }
  int writes_to() const { return descriptor(striped_ == nullptr ? 0 : striped_->writes_to()); }

  // From now on long tails within the array are read by the peer where they are. Shared memory
  // only.
  void lend(std::shared_ptr<const LentArray> array) { lent_.push_back(std::move(array)); }

  // Sending: one frame is written at a time. A frame is finished when it is written, and its tail
  // read by the peer if it is lent, or let_go() was called; frames finish in order. `tail` must
  // stay until then.
  bool can_begin() const { return left_ == 0 && unfinished_.size() < kUnfinishedMax; }
  bool is_writing() const { return left_ > 0 || !unfinished_.empty(); }
  std::size_t left() const { return left_; }  // bytes of the frame being written
  void begin(FrameHeader header, std::string head, ByteSpan tail);
  // Writes what the stream takes now. How many frames have finished since the last call.
  Result<std::size_t> flush();

  // Receiving: bytes that were read, 0 when it would block. Not while peek() shows a frame that the
  // caller does not want yet. `likely`: where the tail of the next frame is expected to go.
  Result<std::size_t> read(std::span<std::byte> likely = {});
  // The header of the frame that next() will return, or null before it is there. kAuth unless it
  // carries the proven identity.
  Result<const DecodedHeader*> peek();
  Result<std::optional<Frame>> next(const TailPlace& place);
  // peek() has shown a frame that next() has not returned. A frame is dropped, and of those behind
  // it only an abort counts, if the peer wants its lent tail back or is gone before it was found.
  bool is_in_frame() const { return taking_.has_value() || reader_.is_in_frame(); }

  // Neither reads nor writes memory of the caller any more: what is left of frames under way is
  // kept here, and a peer that reads a lent tail drops it.
  void let_go();

  // Waiting: before a sleep until a descriptor is ready, and after it. False: no need to sleep.
  bool prepare_sleep(bool wants_data);
  void wake();
  // A read would bring something that the descriptor does not show.
  bool has_read_ahead() const { return stream_->has_read_ahead(); }
  // Shared memory: its descriptor shows bells and the end only.
  bool is_memory() const { return ring_ != nullptr; }
  // Sends no more; the peer reads the end once it has read all that was sent.
  void end();
  // The peer has closed the connection, though not all that it sent may have been read.
  bool is_closed() const;
  // kUnreachable: a lane is broken, though it is not the one to be read, which has nothing more.
  Status check_lanes() const;
  // How long the peer's machine has acknowledged nothing of what it was sent on some lane, as far
  // as calls of this function have seen it; zero when nothing is due. A stopped process does not
  // count: its kernel goes on answering.
  Duration unacknowledged(TimePoint now);

 private:
  // A frame with a lent tail.
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
  RingStream* ring_;                  // the stream, where it is shared memory
  StripedStream* striped_ = nullptr;  // the stream, where it has several lanes
  FrameReader reader_;
  Ends ends_;
  bool trusts_payloads_;
  // The frame being written.
  FrameHeaderBytes header_{};
  std::string head_;
  ByteSpan tail_;
  Bytes kept_;            // the tail, once let_go() is called
  std::size_t left_ = 0;  // bytes
  bool is_lent_ = false;
  // Frames that are written, oldest first: whether the tail is lent.
  std::deque<bool> unfinished_;
  std::size_t taken_ = 0;  // of the lent tails of these, read by the peer
  std::vector<std::shared_ptr<const LentArray>> lent_;
  bool is_revoked_ = false;  // nothing is lent any more
  ArraysOfPeer arrays_;
  std::optional<Taking> taking_;
};

}  // namespace paddle::net::peer
