#include "engine/group/rank_state.h"

#include <gtest/gtest.h>

namespace paddle::collective {
namespace {

constexpr TimePoint kStateNow{std::chrono::hours(1)};
const std::vector<std::string> kNames{"rank 0 (a)", "rank 1 (b)", "rank 2 (c)"};

TEST(RankStateTest, WhatOthersSayIsBounded) {
  const RankState endless{.activity = std::string(5000, 'x'),
                          .waits_for = std::vector<std::uint32_t>(50, 2)};
  const auto decoded = decode_rank_state(encode(endless), 3);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->activity.size(), kActivityBytesMax);
  EXPECT_EQ(decoded->waits_for.size(), kRanksNamed);
  const auto unknown = decode_rank_state(encode({.waits_for = {7, 1}}), 3);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->waits_for, std::vector<std::uint32_t>{1});
  EXPECT_FALSE(decode_rank_state("\xff", 3));
}

TEST(RankStateTest, TheLastStateTellsWhatARankDoesAndForWhomItWaits) {
  LastRankState last;
  EXPECT_EQ(last.text(kStateNow, kNames), "no frame received yet");
  last = {.received = kStateNow, .state = {.activity = "testing", .waits_for = {2, 0}}};
  EXPECT_TRUE(last.waits(kStateNow));
  EXPECT_EQ(last.text(kStateNow, kNames, " by rank 1"),
            "last frame received 0.0 s ago by rank 1, testing, waits for rank 2 (c) and others");
  // A rank that has said nothing since may be what the others wait for.
  EXPECT_FALSE(last.waits(kStateNow + std::chrono::seconds(2)));
  EXPECT_EQ(last.text(kStateNow + std::chrono::seconds(2), kNames),
            "last frame received 2.0 s ago, testing");
}

}  // namespace
}  // namespace paddle::collective
