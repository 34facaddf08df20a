// HMAC is built on Sha256: libcrypto's HMAC would link all its providers into every program
// (3.4 MB into the agent), and libsodium's would link a second SHA-256.
#include "base/proof.h"

#include <string.h>

#include <algorithm>

#include "base/check.h"

namespace paddle {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::byte kInnerPad{0x36};
constexpr std::byte kOuterPad{0x5c};
constexpr std::byte kFirstBlock{1};  // HKDF's number of its first output block

}  // namespace

Result<Nonce> random_nonce() {
  Nonce nonce;
  PADDLE_TRY_STATUS(fill_random(nonce));
  return nonce;
}

Sha256Digest hmac_sha256(ByteSpan key, std::initializer_list<ByteSpan> parts) {
  std::array<std::byte, kBlockBytes> block{};
  PADDLE_CHECK(key.size() <= block.size());
  std::ranges::copy(key, block.begin());
  Sha256 inner, outer;
  for (std::byte& b : block) b ^= kInnerPad;
  inner.update(block);
  for (const ByteSpan part : parts) inner.update(part);
  for (std::byte& b : block) b ^= kInnerPad ^ kOuterPad;
  outer.update(block);
  outer.update(inner.finish());
  ::explicit_bzero(block.data(), block.size());
  return outer.finish();
}

Proof prove(const Secret& key, std::string_view label, ByteSpan facts) {
  std::array<std::byte, kLabelBytes> padded{};
  PADDLE_CHECK(label.size() <= padded.size());
  std::ranges::copy(as_bytes(label), padded.begin());
  return hmac_sha256(key.reveal(), {padded, facts});
}

Secret derive_secret(const Secret& secret, std::string_view purpose, ByteSpan info) {
  Sha256Digest extracted = hmac_sha256(as_bytes(purpose), {secret.reveal()});
  Sha256Digest derived = hmac_sha256(extracted, {info, ByteSpan(&kFirstBlock, 1)});
  auto made = Secret::from_bytes(derived);
  PADDLE_CHECK(made);
  ::explicit_bzero(extracted.data(), extracted.size());
  ::explicit_bzero(derived.data(), derived.size());
  return *std::move(made);
}

}  // namespace paddle
