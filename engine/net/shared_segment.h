// Memory shared by two processes of one user on one host: created by the client of a proven
// session, opened by the server through /proc. PROTOCOL.md specifies the offer and the layout.
#pragma once

#include <atomic>

#include "base/fd.h"
#include "engine/net/session.h"

namespace paddle::net {

// Creates a file of zeros without a name (memfd_create), with its pages allocated and its size
// sealed, so that a process that maps it never reads a page that was removed. kResource.
Result<UniqueFd> create_shared_file(const char* name, std::size_t bytes);
// Forbids further seals. With `is_mine` the file can be written only through mappings that exist
// already.
Status seal_file(const UniqueFd& file, bool is_mine);
// The offer of a file: the process id, u32, and the descriptor in that process, u32.
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

// The counters of one direction. Each counter has one writer and only grows; its reader does not
// trust it.
struct RingCounters {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes ever, by the producer
  // By the producer: not 0 once its lent tails may change.
  std::atomic<std::uint64_t> revoked;
  alignas(64) std::atomic<std::uint64_t> read;  // bytes ever, by the consumer
  std::atomic<std::uint64_t> taken;             // lent tails ever, by the consumer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Reasons to wake a sleeping side.
enum WakeFlag : std::uint32_t { kWantsData = 1, kWantsRoom = 2, kWantsTaken = 4 };

struct SharedLayout {
  std::array<std::byte, kNonceBytes> token;
  alignas(64) std::array<RingCounters, 2> counters;  // client to server, server to client
  alignas(64) std::array<std::atomic<std::uint32_t>, 2> wake_flags;  // client's, server's
  alignas(4096) std::array<std::array<std::byte, kRingBytes>, 2> data;
};

static_assert(offsetof(SharedLayout, counters) == 64 && sizeof(RingCounters) == 128 &&
              offsetof(SharedLayout, wake_flags) == 320 && offsetof(SharedLayout, data) == 4096);

class SharedSegment {
 public:
  // Creates a segment whose size is sealed.
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
