#include "engine/group/pulse.h"

#include <gtest/gtest.h>

namespace paddle::collective {
namespace {

constexpr TimePoint kPulseNow{std::chrono::hours(1)};
const std::vector<std::string> kNames{"rank 0 (a)", "rank 1 (b)", "rank 2 (c)"};

TEST(PulseTest, WhatOthersSayIsBounded) {
  const Pulse endless{.activity = std::string(5000, 'x'),
                      .waits_for = std::vector<std::uint32_t>(50, 2)};
  const auto decoded = decode_pulse(encode(endless), 3);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->activity.size(), kActivityBytesMax);
  EXPECT_EQ(decoded->waits_for.size(), kRanksNamed);
  const auto unknown = decode_pulse(encode({.waits_for = {7, 1}}), 3);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->waits_for, std::vector<std::uint32_t>{1});
  EXPECT_FALSE(decode_pulse("\xff", 3));
}

TEST(PulseTest, TheLastWordTellsWhatARankDoesAndForWhomItWaits) {
  LastWord word;
  EXPECT_EQ(word.text(kPulseNow, kNames), "no frame received yet");
  word = {.received = kPulseNow, .pulse = {.activity = "testing", .waits_for = {2, 0}}};
  EXPECT_TRUE(word.waits(kPulseNow));
  EXPECT_EQ(word.text(kPulseNow, kNames, " by rank 1"),
            "last frame received 0.0 s ago by rank 1, testing, waits for rank 2 (c) and others");
  // A rank that has said nothing since may be what the others wait for.
  EXPECT_FALSE(word.waits(kPulseNow + std::chrono::seconds(2)));
  EXPECT_EQ(word.text(kPulseNow + std::chrono::seconds(2), kNames),
            "last frame received 2.0 s ago, testing");
}

}  // namespace
}  // namespace paddle::collective
