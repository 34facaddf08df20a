// A byte stream through shared memory, beside the socket on which both sides proved themselves. The
// socket stays open to wake a sleeping side and to show the end of the peer.
#pragma once

#include "engine/net/shared_segment.h"
#include "engine/net/socket.h"

namespace paddle::net {

class RingStream final : public Stream {
 public:
  // Does not own the socket, which must not block.
  RingStream(SharedSegment&& segment, Side side, int socket);

  // kData when the peer's counters are impossible; kUnreachable when it is gone and all is read.
  Result<std::size_t> read_some(std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override;
  Status wait(Direction direction, TimePoint deadline) override;

  // Lending: the bytes of this stream may tell the peer of memory that it reads where it is.
  // lend() counts a piece that it is told of, take() one of the peer's that was read.
  void lend() { ++lent_; }
  void take();
  // Pieces that the peer has read since the last call. Errors as of write_some().
  Result<std::size_t> newly_taken();
  // From now on lent memory may change, so whoever still reads it must not use it.
  void revoke() const;
  // To be asked after a read, and before take().
  bool is_revoked() const;

  // Whether a read, or a write, would make progress or fail now.
  bool can_read() const;
  bool can_write() const;
  // Announces that this side sleeps until its socket is readable; false when it need not sleep.
  bool prepare_sleep(std::uint32_t flags);
  void stay_awake() { own_flags_->store(0, std::memory_order_relaxed); }
  // To be called when the sleep ends, for whatever reason.
  void wake();

 private:
  struct Ring {
    RingCounters* counters;
    std::byte* data;
    std::uint64_t mine = 0;  // our own copy of our counter: the peer could write the shared one
  };
  void ring_bell(std::uint32_t flag);

  SharedSegment segment_;
  Ring in_;
  Ring out_;
  std::atomic<std::uint32_t>* own_flags_;
  std::atomic<std::uint32_t>* peer_flags_;
  int socket_;
  std::uint64_t lent_ = 0;    // to the peer
  std::uint64_t taken_ = 0;   // of those, as far as newly_taken() has told
  std::uint64_t taking_ = 0;  // of the peer's
  bool is_closed_ = false;
};

}  // namespace paddle::net
