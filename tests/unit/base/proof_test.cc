#include "base/proof.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace paddle {
namespace {

Secret secret_of(int fill) {
  return *Secret::from_bytes(Bytes(kSecretBytes, static_cast<std::byte>(fill)));
}

// RFC 4231, cases 1 and 2: a short key and a text key.
TEST(Hmac, HasTheBytesOfTheRfc) {
  EXPECT_EQ(to_hex(hmac_sha256(Bytes(20, std::byte{0x0b}), {as_bytes("Hi "), as_bytes("There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), {as_bytes("what do ya want for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Proof, IsTheHmacOfThePaddedLabelAndTheFacts) {
  const Proof proof = prove(secret_of(1), "label", as_bytes("facts"));
  const std::string text = "label" + std::string(kLabelBytes - 5, '\0') + "facts";
  EXPECT_EQ(proof, hmac_sha256(secret_of(1).reveal(), {as_bytes(text)}));
  EXPECT_NE(proof, prove(secret_of(2), "label", as_bytes("facts")));
  EXPECT_NE(proof, prove(secret_of(1), "labelf", as_bytes("acts"))) << "a label has an end";
}

TEST(Proof, NoNonceComesTwice) {
  const auto one = random_nonce();
  const auto other = random_nonce();
  ASSERT_TRUE(one && other);
  EXPECT_NE(*one, *other);
}

}  // namespace
}  // namespace paddle
