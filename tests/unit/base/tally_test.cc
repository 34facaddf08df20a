#include "base/tally.h"

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(Tally, AddsEntryByEntryAndTakesAShapeOnce) {
  Tally total;
  total.add({{1, 2}, {0.5}});
  total.add({{10, 20}, {0.25}});
  EXPECT_EQ(total.counts, (std::vector<std::uint64_t>{11, 22}));
  EXPECT_EQ(total.sums, (std::vector<double>{0.75}));
}

TEST(Tally, BytesRoundTripAndOthersAreRefused) {
  const Tally tally{{1, ~std::uint64_t{0}}, {-0.5, 1e300, 3}};
  const Bytes bytes = encode(tally);
  const auto back = decode_tally(bytes, 2, 3);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->counts, tally.counts);
  EXPECT_EQ(back->sums, tally.sums);
  EXPECT_FALSE(decode_tally(bytes, 2, 2));
  EXPECT_FALSE(decode_tally(bytes, ~std::uint64_t{0}, 6));
  EXPECT_FALSE(decode_tally(Bytes((kTallyEntriesMax + 1) * 8), kTallyEntriesMax, 1));
  EXPECT_TRUE(decode_tally(Bytes(), 0, 0)->empty());
}

}  // namespace
}  // namespace paddle
