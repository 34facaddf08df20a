// Memory shared by two processes of one user on one host: created by the client of a proven
// session, opened by the server through /proc. PROTOCOL.md specifies the offer and the layout.
#pragma once

#include <atomic>

#include "base/fd.h"
#include "engine/net/session.h"

namespace paddle::net {

// A new file of zeros without a name (memfd_create), whose pages are there and whose size is
// sealed: whoever maps it reads no pages that are taken away. kResource.
Result<UniqueFd> create_shared_file(const char* name, std::size_t bytes);
// Nobody can seal it further. With `is_mine` only mappings that are there already may be written.
Status seal_file(const UniqueFd& file, bool is_mine);
// Its process, u32, and its descriptor there, u32.
Bytes offer_of(const UniqueFd& file);
constexpr std::size_t kFileOfferBytes = 4 + 4;

struct SharedFile {
  UniqueFd fd;
  std::size_t bytes = 0;
};
// The file that a peer offers. kAuth unless it is regular, belongs to this user and is sealed
// against shrinking and growing; kUnreachable: the peer has gone; kResource. `flags`: O_RDWR or
// O_RDONLY.
Result<SharedFile> open_shared_file(ByteSpan offer, int flags);

constexpr std::size_t kRingBytes = 512U << 10U;  // each way; a power of two

// One direction. Each counter has one writer and only grows; its reader does not trust it.
struct RingCounters {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes ever, by the producer
  std::atomic<std::uint64_t> revoked;              // not 0: tails it has lent may change, likewise
  alignas(64) std::atomic<std::uint64_t> read;     // bytes ever, by the consumer
  std::atomic<std::uint64_t> taken;                // lent tails ever, likewise
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Reasons to wake a sleeping side.
enum WakeFlag : std::uint32_t { kWantsData = 1, kWantsRoom = 2, kWantsTaken = 4 };

struct SharedLayout {
  std::array<std::byte, kNonceBytes> token;
  alignas(64) std::array<RingCounters, 2> counters;  // client to server, server to client
  alignas(64) std::array<std::atomic<std::uint32_t>, 2> wake_flags;  // of client, of server
  alignas(4096) std::array<std::array<std::byte, kRingBytes>, 2> data;
};

static_assert(offsetof(SharedLayout, counters) == 64 && sizeof(RingCounters) == 128 &&
              offsetof(SharedLayout, wake_flags) == 320 && offsetof(SharedLayout, data) == 4096);

class SharedSegment {
 public:
  // A new segment, sealed so that its size cannot change.
  static Result<SharedSegment> create();
  // The segment that a peer offers; kAuth unless it belongs to this user, has the right size, is
  // sealed against shrinking and holds the token.
  static Result<SharedSegment> open(ByteSpan offer);
  SharedSegment(SharedSegment&& other) noexcept
      : fd_(std::move(other.fd_)), layout_(std::exchange(other.layout_, nullptr)) {}
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  Bytes offer() const;  // not after close_file()
  void close_file() { fd_.reset(); }
  SharedLayout& layout() const { return *layout_; }

 private:
  SharedSegment() = default;
  Status map(int flags);

  UniqueFd fd_;
  SharedLayout* layout_ = nullptr;
};

}  // namespace paddle::net
