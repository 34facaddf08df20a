// A byte stream between two nodes that have proved a token to each other: PROTOCOL.md, "Between
// nodes".
#pragma once

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/agent/peer/seal.h"

namespace paddle::agent {

constexpr std::size_t kRecordBytesMax = 64U << 10U;  // of content

// Sealed, or in the clear where nobody else can listen. The descriptor must outlive the stream.
class PeerStream {
 public:
  enum class Side { kCaller, kListener };
  // Agrees on keys for this connection alone.
  static Result<PeerStream> open(int fd, ByteSpan token, Side side, bool sealed,
                                 TimePoint deadline);

  Status write(ByteSpan bytes, TimePoint deadline);
  // kAuth when the bytes are not those that the other end wrote.
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
  Bytes record_;                // read last
  std::size_t record_at_ = 0;   // bytes of it already returned
  std::size_t record_end_ = 0;  // followed by the tag
};

}  // namespace paddle::agent
