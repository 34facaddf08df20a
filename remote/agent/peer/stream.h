// A byte stream between two nodes that have proved their keys to each other (PROTOCOL.md, "Between
// nodes"), and its authenticated encryption: ChaCha20-Poly1305 (RFC 8439) of libsodium.
// (libcrypto's would bring all its providers and double the size of the agent.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/clock.h"
#include "remote/agent/peer/handshake.h"

namespace paddle::agent {

constexpr std::size_t kSealTagBytes = 16;

using SealTag = std::array<std::byte, kSealTagBytes>;
using SealNonce = std::array<std::byte, 12>;  // must be unique per key

// Encrypts in place; the tag authenticates the bytes and `associated`, which stays in the clear.
SealTag seal(const Secret& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes);
// Decrypts in place. False when anything was changed; the bytes are then undefined.
bool unseal(const Secret& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag);

constexpr std::size_t kRecordBytesMax = 64U << 10U;  // of content

// Sealed, or in the clear where nobody else can listen. The connection must outlive the stream.
class PeerStream {
 public:
  enum class Side { kCaller, kListener };
  PeerStream(const PeerConnection& connection, Side side, bool sealed);

  Status write(ByteSpan bytes, TimePoint deadline);
  // kAuth when the bytes are not those that the other end wrote.
  Status read(std::span<std::byte> into, TimePoint deadline);

 private:
  struct Direction {
    Secret key;
    std::uint64_t records = 0;
  };
  Status read_record(TimePoint deadline);

  int fd_;
  bool sealed_;
  Direction out_, in_;
  Bytes record_;                // read last
  std::size_t record_at_ = 0;   // bytes of it already returned
  std::size_t record_end_ = 0;  // followed by the tag
};

}  // namespace paddle::agent
