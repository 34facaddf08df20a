// Memory that two processes of one user on one host share: made by the client of a proven session,
// found by the server through /proc. PROTOCOL.md specifies the offer and the layout.
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "base/bytes.h"
#include "base/fd.h"
#include "engine/net/session.h"

namespace paddle::net {

constexpr std::size_t kRingBytes = 512U << 10U;  // each way; a power of two

// One direction. Each counter has one writer and only grows; the other side reads it as a claim.
struct RingCounters {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes ever, by the producer
  alignas(64) std::atomic<std::uint64_t> read;     // bytes ever, by the consumer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// What a sleeping side waits for.
enum Wish : std::uint32_t { kWantsData = 1, kWantsRoom = 2 };

struct SharedLayout {
  std::array<std::byte, kNonceBytes> token;
  alignas(64) std::array<RingCounters, 2> counters;  // client to server, server to client
  alignas(64) std::array<std::atomic<std::uint32_t>, 2> wishes;  // of the client, of the server
  alignas(4096) std::array<std::array<std::byte, kRingBytes>, 2> data;
};

static_assert(offsetof(SharedLayout, counters) == 64 && sizeof(RingCounters) == 128 &&
              offsetof(SharedLayout, wishes) == 320 && offsetof(SharedLayout, data) == 4096);

class SharedSegment {
 public:
  // A new one, of a size that nobody can change any more.
  static Result<SharedSegment> create();
  // The one that a peer offers: kAuth unless it is a segment of this user, of the right size, that
  // cannot shrink under us and holds the token.
  static Result<SharedSegment> open(ByteSpan offer);
  SharedSegment(SharedSegment&& other) noexcept
      : fd_(std::move(other.fd_)), layout_(std::exchange(other.layout_, nullptr)) {}
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  Bytes offer() const;  // until close_file()
  void close_file() { fd_.reset(); }
  SharedLayout& layout() const { return *layout_; }

 private:
  SharedSegment() = default;
  Status map(int flags);

  UniqueFd fd_;
  SharedLayout* layout_ = nullptr;
};

}  // namespace paddle::net
