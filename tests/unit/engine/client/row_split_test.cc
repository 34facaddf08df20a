#include <gtest/gtest.h>

#include "engine/client/sparse_channel.h"
#include "engine/table/partition.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::client {
namespace {

TEST(RowSplit, FramesHaveBoundedBytes) {
  const auto set = test::small_set("sgd", 1, 1, 1);
  std::vector<SparseRows> rows = {{2, {1, 2, 3, 4, 5}, {}, {}}};
  const auto frames = split_rows(rows, set, 2 * (8 + 3 * 4));
  ASSERT_EQ(frames.size(), 1U);
  ASSERT_EQ(frames[0].size(), 3U);
  EXPECT_EQ(frames[0][1].ranges[0].runs, (std::vector<RowRun>{{2, 2}}));
  EXPECT_EQ(frames[0][1].ranges[0].count, 2U);
}

TEST(RowSplit, EveryShardGetsItsRowsAndAtLeastOneFrame) {
  const auto set = test::small_set("sgd", 1, 1, 3);
  std::vector<SparseRows> rows = {{2, {}, {}, {}}};
  for (std::uint64_t id = 0; id < 100; ++id) rows[0].ids.push_back(id);
  std::vector<std::size_t> seen(rows[0].ids.size(), 0);
  const auto frames = split_rows(rows, set, 1 << 20);
  ASSERT_EQ(frames.size(), 3U);
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    ASSERT_EQ(frames[shard].size(), 1U);
    for (const RowRun& run : frames[shard][0].ranges.at(0).runs) {
      for (std::size_t i = run.begin; i < run.begin + run.count; ++i) {
        ++seen[i];
        EXPECT_EQ(parameter::sparse_shard(rows[0].ids[i], 3), shard);
      }
    }
  }
  EXPECT_EQ(seen, std::vector<std::size_t>(100, 1));
  rows[0].ids.clear();
  for (const auto& of_shard : split_rows(rows, set, 1 << 20)) EXPECT_EQ(of_shard.size(), 1U);
}

TEST(RowSplit, FewRunsStayInPlaceAndManyAreCopied) {
  RowFrame frame{{{0, 64, {}}}};
  for (std::size_t i = 0; i < 64; ++i) frame.ranges[0].runs.push_back({2 * i, 1});
  EXPECT_TRUE(stays_in_place(frame));
  frame.ranges[0].runs.push_back({200, 1});
  EXPECT_FALSE(stays_in_place(frame));
}

}  // namespace
}  // namespace paddle::client
