// A connection between two nodes, which the store and the probe use (PROTOCOL.md, "Between nodes"):
// the proofs by which a listener and a caller authenticate each other before anything else is read,
// and the byte stream that follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/keys.h"

namespace paddle::agent {

// A connection whose ends have both proved their keys.
struct PeerConnection {
  UniqueFd fd;  // non-blocking
  PeerKeys keys;
};

// The first bytes of a caller: its number, nonce and proof.
using PeerClaim = std::array<std::byte, 4 + kNonceBytes + kSecretBytes>;

struct ProvenCaller {
  std::uint32_t caller = 0;
  PeerKeys keys;
};
// Checks a caller's claim on the listener's side, after the listener has sent its nonce. Returns
// the caller if the claim proves the key of the number that it names; keys.listener_proof is then
// the answer to send. Returns nothing otherwise.
std::optional<ProvenCaller> check_claim(const Secret& token, std::string_view service,
                                        const Nonce& listener_nonce, const PeerClaim& claim);

// The whole exchange of proofs on the caller's side. kAuth when the listener has another key.
Result<PeerKeys> prove_to_listener(int fd, const Secret& caller_key, std::uint32_t caller,
                                   std::string_view service, TimePoint deadline);

// The byte stream of a connection, and its authenticated encryption: ChaCha20-Poly1305 (RFC 8439)
// from libsodium. (The one from libcrypto would bring all providers of libcrypto and double the
// size of the agent.)

constexpr std::size_t kSealTagBytes = 16;

using SealTag = std::array<std::byte, kSealTagBytes>;
using SealNonce = std::array<std::byte, 12>;  // must be unique per key

// Encrypts in place; the tag authenticates the bytes and `associated`, which stays in the clear.
SealTag seal(const Secret& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes);
// Decrypts in place. False when anything was changed; the bytes are then undefined.
bool unseal(const Secret& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag);

constexpr std::size_t kRecordBytesMax = 64U << 10U;  // without the length and the tag

// The byte stream, sealed or, where no other machine can read it, in the clear. The connection must
// outlive the stream.
class PeerStream {
 public:
  enum class Side { kCaller, kListener };
  PeerStream(const PeerConnection& connection, Side side, bool sealed);

  Status write(ByteSpan bytes, TimePoint deadline);
  // kAuth when the bytes differ from what the other end wrote.
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
  Bytes record_;                // the record read last
  std::size_t record_at_ = 0;   // bytes of `record_` already returned
  std::size_t record_end_ = 0;  // end of the content in `record_`, where the tag begins
};

}  // namespace paddle::agent
