// Built on Sha256, because libcrypto's HMAC would link all its providers into every program.
#include "base/hmac.h"

#include <string.h>

#include <algorithm>

namespace paddle {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::byte kInnerPad{0x36};
constexpr std::byte kOuterPad{0x5c};
constexpr std::byte kFirstBlock{1};  // HKDF's number of its first output block

}  // namespace

Sha256Digest hmac_sha256(ByteSpan key, std::span<const ByteSpan> parts) {
  std::array<std::byte, kBlockBytes> block{};
  if (key.size() <= block.size()) {
    std::ranges::copy(key, block.begin());
  } else {
    Sha256 sha;
    sha.update(key);
    std::ranges::copy(sha.finish(), block.begin());
  }
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

Secret derive_secret(const Secret& secret, std::string_view purpose, ByteSpan info) {
  const ByteSpan input[] = {secret.reveal()};
  Sha256Digest extracted = hmac_sha256(as_bytes(purpose), input);
  const ByteSpan expanded[] = {info, ByteSpan(&kFirstBlock, 1)};
  Sha256Digest derived = hmac_sha256(extracted, expanded);
  auto made = Secret::from_bytes(derived);
  PADDLE_CHECK(made);
  ::explicit_bzero(extracted.data(), extracted.size());
  ::explicit_bzero(derived.data(), derived.size());
  return *std::move(made);
}

}  // namespace paddle
