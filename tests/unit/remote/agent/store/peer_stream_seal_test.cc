// The agent's cipher against RFC 8439 and libcrypto's.
#include <memory>
#include <random>

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "remote/agent/store/peer_connection.h"

namespace paddle::agent {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

SealTag seal_with_libcrypto(const Secret& key, const SealNonce& nonce, ByteSpan associated,
                            std::span<std::byte> bytes) {
  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context(EVP_CIPHER_CTX_new());
  int size = 0;
  EVP_EncryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, raw(key.reveal()),
                     raw(nonce));
  EVP_EncryptUpdate(context.get(), nullptr, &size, raw(associated),
                    static_cast<int>(associated.size()));
  EVP_EncryptUpdate(context.get(), raw(bytes), &size, raw(ByteSpan(bytes)),
                    static_cast<int>(bytes.size()));
  SealTag tag{};
  EVP_EncryptFinal_ex(context.get(), raw(std::span<std::byte>(tag)), &size);
  EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kSealTagBytes, tag.data());
  return tag;
}

template <std::size_t kSize>
std::array<std::byte, kSize> counting_from(unsigned first) {
  std::array<std::byte, kSize> bytes;
  for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

TEST(Seal, TheExampleOfTheRfc) {  // RFC 8439, 2.8.2
  std::string text =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
      "sunscreen would be it.";
  const Secret key = *Secret::from_bytes(counting_from<kSecretBytes>(0x80));
  SealNonce nonce = counting_from<12>(0x40 - 4);
  for (std::size_t i = 0; i < 4; ++i) nonce[i] = i == 0 ? std::byte{7} : std::byte{0};
  const std::string associated("\x50\x51\x52\x53\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7", 12);
  const auto bytes = std::as_writable_bytes(std::span(text));
  const SealTag tag = seal(key, nonce, as_bytes(associated), bytes);
  const std::string expected("\x1a\xe1\x0b\x59\x4f\x09\xe2\x6a\x7e\x90\x2e\xcb\xd0\x60\x06\x91",
                             16);
  EXPECT_EQ(as_text(tag), expected);
  EXPECT_EQ(text.substr(0, 4), "\xd3\x1a\x8d\x34");
}

TEST(Seal, EveryLengthIsAsLibcryptoSealsIt) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 70'000; size = size < 2200 ? size + 1 : size * 3 / 2) {
    Bytes secret(kSecretBytes);
    SealNonce nonce;
    Bytes text(size), associated(size % 50);
    for (auto* const bytes : {&text, &associated})
      for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random());
    for (std::byte& byte : secret)
      byte = static_cast<std::byte>(random() % 4 == 0 ? 255 : random());
    const Secret key = *Secret::from_bytes(secret);
    for (std::byte& byte : nonce) byte = static_cast<std::byte>(random());
    Bytes ours = text, theirs = text;
    const SealTag tag = seal(key, nonce, associated, ours);
    ASSERT_EQ(tag, seal_with_libcrypto(key, nonce, associated, theirs)) << size;
    ASSERT_TRUE(ours == theirs) << size;
    ASSERT_TRUE(unseal(key, nonce, associated, ours, tag));
    ASSERT_TRUE(ours == text) << size;
  }
}

TEST(Seal, AnyChangedBitIsSeen) {
  const Secret key = *Secret::from_bytes(counting_from<kSecretBytes>(1));
  const auto nonce = counting_from<12>(1);
  Bytes text(100, std::byte{5}), associated(20, std::byte{6});
  const SealTag tag = seal(key, nonce, associated, text);
  const Bytes sealed = text;
  for (std::size_t bit = 0; bit < 8 * (text.size() + associated.size() + tag.size()); ++bit) {
    Bytes all = sealed;
    append_bytes(all, std::span<const std::byte>(associated));
    append_bytes(all, std::span<const std::byte>(tag));
    all[bit / 8] ^= std::byte{1} << (bit % 8);
    const std::span<std::byte> parts(all);
    EXPECT_FALSE(unseal(key, nonce, parts.subspan(text.size(), associated.size()),
                        parts.first(text.size()), parts.last(tag.size())))
        << bit;
  }
  SealNonce other = nonce;
  other[11] ^= std::byte{1};
  EXPECT_FALSE(unseal(key, other, associated, text, tag));
}

}  // namespace
}  // namespace paddle::agent
