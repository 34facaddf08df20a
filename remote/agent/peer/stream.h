// What flows between two nodes that proved a token to each other: PROTOCOL.md, "Between nodes".
#pragma once

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/agent/peer/seal.h"

namespace paddle::agent {

constexpr std::size_t kRecordBytesMax = 64U << 10U;  // of content

// Sealed, or as it is where nobody else can listen. Exactly what one end writes the other can read.
// The descriptor outlives it.
class PeerStream {
 public:
  enum class Side { kCaller, kListener };
  // Agrees on keys that no other connection has.
  static Result<PeerStream> open(int fd, ByteSpan token, Side side, bool sealed,
                                 TimePoint deadline);

  Status write(ByteSpan bytes, TimePoint deadline);
  // kAuth: not what the other end wrote.
  Status read(std::span<std::byte> into, TimePoint deadline);

 private:
  struct Direction {
    SealKey key{};
    std::uint64_t records = 0;
  };
  PeerStream(int fd, bool sealed) : fd_(fd), sealed_(sealed) {}
  Status read_record(TimePoint deadline);

  int fd_;
  bool sealed_;
  Direction out_, in_;
  Bytes record_;                // what was read last
  std::size_t record_at_ = 0;   // what of it was taken
  std::size_t record_end_ = 0;  // the tag comes after
};

}  // namespace paddle::agent
