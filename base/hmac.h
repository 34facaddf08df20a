// HMAC-SHA256 (RFC 2104) and a key derived by it (HKDF, RFC 5869).
#pragma once

#include "base/secret.h"
#include "base/sha256.h"

namespace paddle {

// HMAC-SHA256 of the concatenated parts.
Sha256Digest hmac_sha256(ByteSpan key, std::span<const ByteSpan> parts);

// HKDF-SHA256 with `purpose` as the salt and one block of output.
Secret derive_secret(const Secret& secret, std::string_view purpose, ByteSpan info);

}  // namespace paddle
