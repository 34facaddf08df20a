#include "engine/table/row_notes.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace paddle::parameter {
namespace {

wire::TablePolicy policy(bool shrinks, int slots) {
  wire::TablePolicy policy;
  if (shrinks) policy.mutable_shrink();
  for (int i = 0; i < slots; ++i) policy.add_entry();
  return policy;
}

TEST(RowNotes, HaveRoomForWhatThePolicyNeeds) {
  EXPECT_EQ(RowNotes(policy(false, 0)).size(), 0U);
  EXPECT_EQ(RowNotes(policy(true, 0)).size(), 2U);
  EXPECT_EQ(RowNotes(policy(false, 3)).size(), 1U);
  EXPECT_EQ(RowNotes(policy(true, 3)).size(), 3U);
}

TEST(RowNotes, ScoresAddUpAndTheLowestSlotCounts) {
  const RowNotes notes(policy(true, 3));
  std::vector<float> sum(3);
  const auto add = [&](const std::vector<float>& more) { notes.add(sum.data(), more.data()); };
  notes.start(sum.data());
  EXPECT_EQ(notes.slot(sum.data()), 3U);
  add({2, 1, 2});
  add({3, 0, 1});
  add({1, 1, 2});
  EXPECT_EQ(notes.score(sum.data()).shows, 6);
  EXPECT_EQ(notes.score(sum.data()).clicks, 2);
  EXPECT_EQ(notes.slot(sum.data()), 1U);
}

// Inlined, it has gcc 12 warn of an array bound that is never reached.
[[gnu::noinline]] bool valid(const RowNotes& notes, const std::vector<float>& sent) {
  return notes.valid(sent.data());
}

TEST(RowNotes, NegativeCountsAndUnknownSlotsAreRefused) {
  const RowNotes notes(policy(true, 3));
  EXPECT_TRUE(valid(notes, {0, 0, 3}));
  EXPECT_FALSE(valid(notes, {0, 0, 4}));
  EXPECT_FALSE(valid(notes, {-1, 0, 0}));
  EXPECT_FALSE(valid(notes, {0, NAN, 0}));
}

TEST(RowScore, ClicksWeighMoreThanShows) {
  wire::ShrinkPolicy policy;
  policy.set_nonclick_coefficient(0.25F);
  policy.set_click_coefficient(2);
  RowScore score{10, 2};
  EXPECT_EQ(score.value(policy), 0.25F * 8 + 2.0F * 2);
  score.decay(0.5F);
  EXPECT_EQ(score.shows, 5);
  EXPECT_EQ(score.clicks, 1);
  EXPECT_FALSE(score.is_zero());
}

}  // namespace
}  // namespace paddle::parameter
