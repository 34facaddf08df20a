// Values that other machines and other programs must get too: checksums and counter-based random
// numbers.
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/rng.h"

namespace paddle {
namespace {

Bytes ramp(int first, int step) {
  Bytes bytes(32);
  for (int i = 0; i < 32; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(first + i * step);
  return bytes;
}

TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(ramp(0, 0)), 0x8a9136aaU);
  EXPECT_EQ(crc32c(ramp(255, 0)), 0x62a8ab43U);
  EXPECT_EQ(crc32c(ramp(0, 1)), 0x46dd794eU);
  EXPECT_EQ(crc32c(ramp(31, -1)), 0x113fdb5cU);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, ContinuesOverAnySplit) {
  const ByteSpan text = as_bytes("123456789");
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.subspan(cut), crc32c(text.first(cut))), 0xe3069283U) << cut;
  }
}

// Long buffers are folded or summed in several lanes, short ones in one: the split must not show.
TEST(Crc32c, IsTheSameForLongBuffersAsByteByByte) {
  Bytes data(50'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(mix64(i) >> 9U);
  for (const std::size_t size :
       {1023U, 1024U, 1025U, 1279U, 1280U, 1281U, 6143U, 6144U, 6145U, 12'288U, 50'000U}) {
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < size; ++i) crc = crc32c(ByteSpan(data).subspan(i, 1), crc);
    EXPECT_EQ(crc32c(ByteSpan(data).first(size)), crc) << size;
  }
}

// Computed independently; a change here would change every initial value and every shuffle of
// existing jobs.
TEST(Rng, HasItsGoldenValues) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(mix64(1), 0x910a2dec89025cc1ULL);
  EXPECT_EQ(stable_hash("_fc.w0"), 0x9601bd885a2420efULL);
  Rng rng(42);
  EXPECT_EQ(rng.next(), 0x4d9b3f1ec9cf6b1bULL);
  EXPECT_EQ(rng.next(), 0x7eb3b394ac9efc29ULL);
  EXPECT_EQ(rng.next(), 0x1db2233eb3bcaeb3ULL);
  EXPECT_EQ(Rng(42).uniform(), 0.30315012456577295);
}

TEST(Rng, DrawsAreInRangeAndNormalDrawsHaveTheirMoments) {
  Rng rng(7);
  constexpr int kDraws = 100000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    ASSERT_LT(rng.below(10), 10U);
    const double uniform = rng.uniform();
    ASSERT_TRUE(uniform >= 0 && uniform < 1);
    const double normal = rng.normal();
    sum += normal;
    squares += normal * normal;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.02);
}

}  // namespace
}  // namespace paddle
