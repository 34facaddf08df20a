// A byte stream through shared memory, beside the socket on which both sides proved themselves. The
// socket stays open: it wakes a side that sleeps, and its end is the end of the peer.
#pragma once

#include "engine/net/shared_segment.h"
#include "engine/net/socket.h"

namespace paddle::net {

class RingStream final : public Stream {
 public:
  // Does not own the socket, which must not block.
  RingStream(SharedSegment&& segment, Side side, int socket);

  // kData when the peer's counters cannot be; kUnreachable when it has gone and all is read.
  Result<std::size_t> read_some(std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override;
  Status wait(Direction direction, TimePoint deadline) override;

  // Whether a read, or a write, would do something now, an error included.
  bool can_read() const;
  bool can_write() const;
  // Announces that this side sleeps until its socket is readable; false when it need not.
  bool prepare_sleep(std::uint32_t wishes);
  void stay_awake() { own_wishes_->store(0, std::memory_order_relaxed); }
  // After the socket was readable, or the sleep ended otherwise.
  void wake();

 private:
  struct Way {
    RingCounters* counters;
    std::byte* data;
    std::uint64_t mine = 0;  // our counter; what the shared memory says of it is not read
  };
  void ring_bell(std::uint32_t wish);

  SharedSegment segment_;
  Way in_;
  Way out_;
  std::atomic<std::uint32_t>* own_wishes_;
  std::atomic<std::uint32_t>* peer_wishes_;
  int socket_;
  bool is_closed_ = false;
};

}  // namespace paddle::net
