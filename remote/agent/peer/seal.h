// ChaCha20-Poly1305 (RFC 8439) of libsodium: what two nodes say to each other is neither read nor
// changed on the way. (libcrypto's would bring all its providers and make the agent twice as long.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace paddle::agent {

constexpr std::size_t kSealKeyBytes = 32;
constexpr std::size_t kSealTagBytes = 16;

using SealKey = std::array<std::byte, kSealKeyBytes>;
using SealTag = std::array<std::byte, kSealTagBytes>;
using SealNonce = std::array<std::byte, 12>;  // never twice with one key

// HMAC-SHA256, keyed with `secret`, of the parts one after the other.
SealKey derive_key(ByteSpan secret, std::span<const ByteSpan> parts);

// Encrypts in place; the tag vouches for the bytes and for `associated`, which stays as it is.
SealTag seal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes);
// Decrypts in place. False: something was changed, and the bytes are lost.
bool unseal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag);

}  // namespace paddle::agent
