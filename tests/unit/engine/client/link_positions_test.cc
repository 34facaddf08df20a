#include "engine/client/link_positions.h"

#include <gtest/gtest.h>

namespace paddle::client {
namespace {

TEST(LinkPositions, PositionsOfAJobAreInTheOrderInWhichTheyCome) {
  // Two batches, a stop in the pass; the end of the pass, two meetings, a batch.
  const LanePosition course[] = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 1, 2},
                                 {1, 0, 0}, {1, 1, 0}, {1, 2, 0}, {1, 2, 1}};
  for (std::size_t i = 0; i + 1 < std::size(course); ++i) EXPECT_LT(course[i], course[i + 1]);
}

TEST(LinkPositions, StartsAtTheEarliestLaneAndLeavesOutThoseThatHaveAPush) {
  LinkPositions lanes;
  lanes.add({2, 1, 7}, true);
  lanes.add({2, 1, 6}, true);
  EXPECT_EQ(lanes.start(), (LanePosition{2, 1, 6}));
  EXPECT_TRUE(lanes.is_behind(lanes.start()));
  EXPECT_FALSE(lanes.lacks(0, {2, 1, 7}));
  EXPECT_TRUE(lanes.lacks(1, {2, 1, 7}));
  lanes.on_push({2, 1, 7});
  EXPECT_FALSE(lanes.lacks(1, {2, 1, 7}));
  EXPECT_FALSE(lanes.is_behind({2, 1, 7}));
  EXPECT_TRUE(lanes.lacks(0, {2, 1, 8}));
}

TEST(LinkPositions, ALaneWhereThePassHasEndedLacksNothingOfIt) {
  LinkPositions lanes;
  lanes.add({3, 0, 0}, true);
  lanes.add({2, 1, 40}, true);
  EXPECT_FALSE(lanes.lacks(0, {2, 1, 41}));
  EXPECT_TRUE(lanes.lacks(0, {3, 0, 1}));
}

TEST(LinkPositions, OnlyLanesInRoundsAreSplit) {
  LinkPositions lanes;
  EXPECT_FALSE(lanes.is_split());
  lanes.add({0, 0, 5}, true);
  lanes.add({0, 0, 3}, false);
  lanes.add({0, 0, 9}, false);
  EXPECT_FALSE(lanes.is_split());
  lanes.add({0, 0, 6}, true);
  EXPECT_TRUE(lanes.is_split());
  lanes.on_push({0, 0, 6});
  EXPECT_FALSE(lanes.is_split());
}

TEST(LinkPositions, AnEndOfAPassThatReachedSomePortsOnlyIsNoSplit) {
  LinkPositions lanes;
  lanes.add({3, 0, 0}, true);
  lanes.add({2, 1, 40}, true);
  lanes.add({2, 1, 40}, true);
  EXPECT_FALSE(lanes.is_split()) << "no port lacks a push";
  lanes.add({2, 1, 39}, true);
  EXPECT_TRUE(lanes.is_split());
}

TEST(LinkPositions, APositionIsOfTheTrainerThatAsks) {
  wire::Position position;
  position.set_passes_finished(4);
  position.set_pauses(1);
  position.add_pass_batches(8);
  position.add_pass_batches(9);
  EXPECT_EQ(position_of(position, 1), (LanePosition{4, 1, 9}));
  EXPECT_EQ(position_of(position, 2), (LanePosition{4, 1, 0}));
}

}  // namespace
}  // namespace paddle::client
