// Proofs that the other end has the same key, and keys derived from a key. Passive: no socket, no
// clock. Four protocols use it; they differ in their messages (PROTOCOL.md) and in this:
//
//   protocol           its proof                           cannot be replayed, because it includes
//   session            prove() with a label for each side  a fresh nonce of each side
//   lane of a group    prove()                             both nonces of both sessions
//   heartbeat          hmac_sha256() of a header, with     a rising sequence number
//                      a derived key for each direction
//   node to node       derive_secret() for each side       a fresh nonce of each side
//
// INVARIANT: each label and purpose has one use, so no proof serves another protocol or side.
// Received proofs are compared with equal_constant_time() (base/secret.h).
#pragma once

#include <initializer_list>

#include "base/secret.h"
#include "base/sha256.h"

namespace paddle {

constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kLabelBytes = 32;

using Nonce = std::array<std::byte, kNonceBytes>;
using Proof = Sha256Digest;
static_assert(sizeof(Proof) == kProofBytes);

// A nonce for one connection, from the kernel's random source.
Result<Nonce> random_nonce();

// HMAC-SHA256 (RFC 2104) of the concatenated parts. REQUIRES: the key has at most 64 bytes.
Sha256Digest hmac_sha256(ByteSpan key, std::initializer_list<ByteSpan> parts);

// HMAC-SHA256 of the label, padded with zeros to kLabelBytes, and of the facts, which both ends
// know.
Proof prove(const Secret& key, std::string_view label, ByteSpan facts);

// HKDF-SHA256 (RFC 5869) with `purpose` as the salt and one block of output.
Secret derive_secret(const Secret& secret, std::string_view purpose, ByteSpan info);

}  // namespace paddle
