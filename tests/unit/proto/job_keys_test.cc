#include <gtest/gtest.h>

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
