#include <gtest/gtest.h>

#include "base/hmac.h"
#include "base/text.h"
#include "proto/keys.h"

namespace paddle {
namespace {

constexpr NodeId kTrainer7{Role::kTrainer, 7};
constexpr NodeId kPserver2{Role::kPserver, 2};
constexpr NodeId kPserver3{Role::kPserver, 3};

Secret job_secret() {
  return *Secret::from_bytes(Bytes(kSecretBytes, std::byte{1}));
}

std::string hex(const Result<Secret>& key) {
  return key ? to_hex(key->reveal()) : key.error().message;
}

// RFC 4231, cases 1, 2 and 6: a short key, a text key, one longer than a block.
TEST(Hmac, HasTheBytesOfTheRfc) {
  const ByteSpan hi[] = {as_bytes("Hi "), as_bytes("There")};
  EXPECT_EQ(to_hex(hmac_sha256(Bytes(20, std::byte{0x0b}), hi)),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  const ByteSpan what[] = {as_bytes("what do ya want for nothing?")};
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), what)),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const ByteSpan large[] = {as_bytes("Test Using Larger Than Block-Size Key - Hash Key First")};
  EXPECT_EQ(to_hex(hmac_sha256(Bytes(131, std::byte{0xaa}), large)),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// Computed independently (Python hmac, hashlib) from PROTOCOL.md.
TEST(JobKeys, HaveTheGoldenBytesOfTheProtocol) {
  EXPECT_EQ(hex(JobKeys::of_job(job_secret()).pair(kTrainer7, kPserver3)),
            "3301f24d4b4b87027ed57d82e42aca8cd6e29e44291bb963d5e2acf8cd5dd5d3");
}

TEST(JobKeys, APserverHasThoseOfAllItsTrainersAndNoOther) {
  const JobKeys all = JobKeys::of_job(job_secret());
  const auto own = JobKeys::decode(encode_keys(job_secret(), kPserver3, true, {}));
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(hex(own->pair(kTrainer7, kPserver3)), hex(all.pair(kTrainer7, kPserver3)));
  EXPECT_NE(hex(own->pair({Role::kTrainer, 8}, kPserver3)), hex(own->pair(kTrainer7, kPserver3)));
  EXPECT_FALSE(own->pair(kTrainer7, kPserver2));
}

TEST(JobKeys, ATrainerHasThoseOfItsPserversAndCannotBeAnother) {
  const JobKeys all = JobKeys::of_job(job_secret());
  const NodeId servers[] = {kPserver2, kPserver3};
  const Bytes file = encode_keys(job_secret(), kTrainer7, false, servers);
  const auto own = JobKeys::decode(file);
  ASSERT_TRUE(own) << own.error().message;
  for (const NodeId server : servers)
    EXPECT_EQ(hex(own->pair(kTrainer7, server)), hex(all.pair(kTrainer7, server)));
  EXPECT_FALSE(own->pair({Role::kTrainer, 8}, kPserver3)) << "another trainer";
  EXPECT_FALSE(own->pair(kTrainer7, {Role::kPserver, 4}));
  EXPECT_FALSE(own->pair(kTrainer7, kTrainer7)) << "it serves nobody";
  EXPECT_EQ(to_hex(file).find(to_hex(job_secret().reveal())), std::string::npos);
}

TEST(JobKeys, AFileThatIsCutOrOfAnotherKindIsRefused) {
  const NodeId servers[] = {kPserver2, kPserver3};
  const Bytes file = encode_keys(job_secret(), kTrainer7, true, servers);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto cut = JobKeys::decode(ByteSpan(file).first(size));
    if (size == kSecretBytes) continue;  // the length of a job's secret
    EXPECT_EQ(static_cast<bool>(cut), size >= 12 && (size - 12) % 36 == 0) << size;
  }
  Bytes other = file;
  other[0] ^= std::byte{1};
  EXPECT_FALSE(JobKeys::decode(other));
}

}  // namespace
}  // namespace paddle
