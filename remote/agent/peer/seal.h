// Authenticated encryption between two nodes: ChaCha20-Poly1305 (RFC 8439) of libsodium.
// (libcrypto's would bring all its providers and double the size of the agent.)
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
using SealNonce = std::array<std::byte, 12>;  // must be unique per key

// HMAC-SHA256, keyed with `secret`, of the concatenated parts.
SealKey derive_key(ByteSpan secret, std::span<const ByteSpan> parts);

// Encrypts in place; the tag authenticates the bytes and `associated`, which stays in the clear.
SealTag seal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes);
// Decrypts in place. False when anything was changed; the bytes are then undefined.
bool unseal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag);

}  // namespace paddle::agent
