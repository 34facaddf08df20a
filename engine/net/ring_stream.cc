#include "engine/net/ring_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace paddle::net {
namespace {

constexpr int kBellsPerWake = 16;  // reads of up to 64 bells; the next wake-up reads the rest

Error broken() {
  return Error{Errc::kData, "the peer's counters of the shared memory are invalid"};
}
Error closed() {
  return Error{Errc::kUnreachable, "closed by peer"};
}

// Calls use(offset in the ring, offset in the range, bytes) for the one or two parts of a range.
template <class Use>
void for_each_part(std::uint64_t begin, std::size_t count, Use&& use) {
  const std::size_t at = begin % kRingBytes;
  const std::size_t first = std::min(count, kRingBytes - at);
  if (first > 0) use(at, std::size_t{0}, first);
  if (count > first) use(std::size_t{0}, first, count - first);
}

}  // namespace

RingStream::RingStream(SharedSegment&& segment, Side side, int socket)
    : segment_(std::move(segment)), socket_(socket) {
  SharedLayout& layout = segment_.layout();
  const std::size_t self = side == Side::kClient ? 0 : 1;
  out_ = {&layout.counters[self], layout.data[self].data()};
  in_ = {&layout.counters[1 - self], layout.data[1 - self].data()};
  own_flags_ = &layout.wake_flags[self];
  peer_flags_ = &layout.wake_flags[1 - self];
}

bool RingStream::can_read() const {
  return is_closed_ || in_.counters->written.load(std::memory_order_acquire) != in_.mine;
}

bool RingStream::can_write() const {
  return is_closed_ ||
         out_.mine - out_.counters->read.load(std::memory_order_acquire) != kRingBytes;
}

Result<std::size_t> RingStream::read_some(std::span<std::byte> into) {
  PADDLE_CHECK(!into.empty());
  const std::uint64_t ready = in_.counters->written.load(std::memory_order_acquire) - in_.mine;
  if (ready > kRingBytes) return broken();
  if (ready == 0) {
    if (is_closed_) return closed();
    return std::size_t{0};
  }
  const std::size_t count = std::min<std::size_t>(ready, into.size());
  for_each_part(in_.mine, count, [&](std::size_t at, std::size_t from, std::size_t bytes) {
    std::memcpy(into.data() + from, in_.data + at, bytes);
  });
  in_.mine += count;
  in_.counters->read.store(in_.mine, std::memory_order_seq_cst);
  ring_bell(kWantsRoom);
  return count;
}

Result<std::size_t> RingStream::write_some(std::span<const ByteSpan> parts) {
  if (is_closed_) return closed();
  const std::uint64_t used = out_.mine - out_.counters->read.load(std::memory_order_acquire);
  if (used > kRingBytes) return broken();
  std::size_t room = kRingBytes - used;
  std::size_t total = 0;
  for (const ByteSpan part : parts) {
    const std::size_t count = std::min(room, part.size());
    for_each_part(out_.mine + total, count, [&](std::size_t at, std::size_t from, std::size_t n) {
      std::memcpy(out_.data + at, part.data() + from, n);
    });
    total += count;
    room -= count;
    if (room == 0) break;
  }
  if (total == 0) return total;
  out_.mine += total;
  out_.counters->written.store(out_.mine, std::memory_order_seq_cst);
  ring_bell(kWantsData);
  return total;
}

Result<std::size_t> RingStream::newly_taken() {
  const std::uint64_t taken = out_.counters->taken.load(std::memory_order_acquire);
  if (taken < taken_ || taken > lent_) return broken();
  if (taken == taken_ && taken != lent_ && is_closed_) return closed();
  return static_cast<std::size_t>(taken - std::exchange(taken_, taken));
}

void RingStream::take() {
  in_.counters->taken.store(++taking_, std::memory_order_seq_cst);
  ring_bell(kWantsTaken);
}

void RingStream::revoke() const {
  out_.counters->revoked.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the memory changes
}

bool RingStream::is_revoked() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return in_.counters->revoked.load(std::memory_order_seq_cst) != 0;
}

// Sends a bell, one byte on the socket, if the peer sleeps until `flag`. This side stores its
// counter, then loads the peer's flag. A peer going to sleep stores its flag, then loads the
// counter. All are sequentially consistent, so at least one side sees the other's store.
void RingStream::ring_bell(std::uint32_t flag) {
  if ((peer_flags_->load(std::memory_order_seq_cst) & flag) == 0) return;
  peer_flags_->store(0, std::memory_order_seq_cst);
  const std::byte bell{};
  // The result is ignored: if the socket is full, the peer finds it readable already; if it is
  // closed, the next wake-up notices that.
  [[maybe_unused]] const ssize_t sent =
      ::send(socket_, &bell, sizeof bell, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool RingStream::prepare_sleep(std::uint32_t flags) {
  own_flags_->store(flags, std::memory_order_seq_cst);
  const bool has_data = (flags & kWantsData) != 0 &&
                        in_.counters->written.load(std::memory_order_seq_cst) != in_.mine;
  const bool has_room =
      (flags & kWantsRoom) != 0 &&
      out_.mine - out_.counters->read.load(std::memory_order_seq_cst) != kRingBytes;
  const bool has_taken =
      (flags & kWantsTaken) != 0 && out_.counters->taken.load(std::memory_order_seq_cst) != taken_;
  if (!has_data && !has_room && !has_taken && !is_closed_) return true;
  stay_awake();
  return false;
}

void RingStream::wake() {
  stay_awake();
  std::array<std::byte, 64> bells;
  for (int i = 0; i < kBellsPerWake; ++i) {
    const ssize_t got = ::recv(socket_, bells.data(), bells.size(), MSG_DONTWAIT);
    if (got > 0) continue;
    is_closed_ =
        is_closed_ || got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    return;
  }
}

Status RingStream::wait(Direction direction, TimePoint deadline) {
  const bool reads = direction == Direction::kRead;
  const auto is_ready = [&] { return reads ? can_read() : can_write(); };
  const TimePoint spin_until = std::min(deadline, SteadyClock().now() + kSpin);
  do {
    if (is_ready()) return {};
    spin_once();
  } while (SteadyClock().now() < spin_until);
  if (!prepare_sleep(reads ? kWantsData : kWantsRoom)) return {};
  Status ready = wait_ready(socket_, POLLIN, deadline);
  wake();
  return ready;
}

}  // namespace paddle::net
