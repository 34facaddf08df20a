#include "remote/agent/peer/seal.h"

#include <sodium.h>

#include "base/check.h"

namespace paddle::agent {
namespace {

static_assert(kSealKeyBytes == crypto_aead_chacha20poly1305_IETF_KEYBYTES);
static_assert(kSealTagBytes == crypto_aead_chacha20poly1305_IETF_ABYTES);
static_assert(sizeof(SealNonce) == crypto_aead_chacha20poly1305_IETF_NPUBBYTES);
static_assert(kSealKeyBytes == crypto_auth_hmacsha256_BYTES);

// Chooses the CPU's fastest code, once.
void prepare() {
  static const bool prepared = sodium_init() >= 0;
  PADDLE_CHECK(prepared);
}

// libsodium takes no null pointer, not even to no bytes.
std::byte none{};

const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.empty() ? &none : bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.empty() ? &none : bytes.data());
}

}  // namespace

SealKey derive_key(ByteSpan secret, std::span<const ByteSpan> parts) {
  prepare();
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(secret), secret.size());
  for (const ByteSpan part : parts) crypto_auth_hmacsha256_update(&state, raw(part), part.size());
  SealKey key;
  crypto_auth_hmacsha256_final(&state, raw(std::span<std::byte>(key)));
  return key;
}

SealTag seal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes) {
  prepare();
  SealTag tag;
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      raw(bytes), raw(std::span<std::byte>(tag)), nullptr, raw(ByteSpan(bytes)), bytes.size(),
      raw(associated), associated.size(), nullptr, raw(ByteSpan(nonce)), raw(ByteSpan(key)));
  return tag;
}

bool unseal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag) {
  prepare();
  return tag.size() == kSealTagBytes &&
         crypto_aead_chacha20poly1305_ietf_decrypt_detached(
             raw(bytes), nullptr, raw(ByteSpan(bytes)), bytes.size(), raw(tag), raw(associated),
             associated.size(), raw(ByteSpan(nonce)), raw(ByteSpan(key))) == 0;
}

}  // namespace paddle::agent
