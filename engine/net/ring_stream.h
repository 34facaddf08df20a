// A byte stream through shared memory, beside the socket of the handshake. The socket stays open to
// wake a sleeping side and to show that the peer has closed it.
#pragma once

#include "engine/net/shared_segment.h"
#include "engine/net/socket.h"

namespace paddle::net {

class RingStream final : public Stream {
 public:
  // Does not own `socket`, which must be non-blocking.
  RingStream(SharedSegment&& segment, Side side, int socket);

  // kData: the peer's counters are impossible. kUnreachable: the peer has gone and everything is
  // read.
  Result<std::size_t> read_some(std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override;
  Status wait(Direction direction, TimePoint deadline) override;

  // Lending: the bytes of this stream may refer to pieces of lent memory, which the peer reads in
  // place. lend() counts a piece that this side lends, take() a piece of the peer that this side
  // has read.
  void lend() { ++lent_; }
  void take();
  // The number of lent pieces that the peer has read since the last call. kData, kUnreachable: as
  // read_some().
  Result<std::size_t> newly_taken();
  // Announces that lent memory may change, so the peer must not use what it still reads.
  void revoke() const;
  // Whether the peer has revoked its lent memory. Call it after a read of that memory, before
  // take().
  bool is_revoked() const;

  // Whether a read, or a write, would make progress or fail now.
  bool can_read() const;
  bool can_write() const;
  // Announces that this side sleeps until its socket is readable; false when it need not sleep.
  bool prepare_sleep(std::uint32_t flags);
  void stay_awake() { own_flags_->store(0, std::memory_order_relaxed); }
  // Call it when the sleep ends, for any reason.
  void wake();

 private:
  struct Ring {
    RingCounters* counters;
    std::byte* data;
    // Private copy of our counter, because the peer can write the shared one.
    std::uint64_t mine = 0;
  };
  void ring_bell(std::uint32_t flag);

  SharedSegment segment_;
  Ring in_;
  Ring out_;
  std::atomic<std::uint32_t>* own_flags_;
  std::atomic<std::uint32_t>* peer_flags_;
  int socket_;
  std::uint64_t lent_ = 0;    // pieces lent to the peer
  std::uint64_t taken_ = 0;   // pieces of lent_ that newly_taken() has reported as read
  std::uint64_t taking_ = 0;  // pieces of the peer that were read
  bool is_closed_ = false;
};

}  // namespace paddle::net
