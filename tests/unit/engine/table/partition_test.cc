#include "engine/table/partition.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "engine/table/parameter_set.h"

namespace paddle::parameter {
namespace {

wire::ParameterSet set_of(std::uint32_t shards, std::vector<std::vector<std::uint64_t>> all_dims) {
  wire::ParameterSet set;
  set.set_dense_shards(shards);
  set.set_min_block_size(8192);
  for (const auto& dims : all_dims) {
    wire::ParameterSpec& spec = *set.add_parameters();
    spec.set_name("p" + std::to_string(set.parameters_size()));
    for (const std::uint64_t dim : dims) spec.add_dims(dim);
  }
  return set;
}

std::vector<std::uint64_t> sizes(const std::vector<DenseBlock>& blocks) {
  std::vector<std::uint64_t> result;
  for (const DenseBlock& block : blocks) result.push_back(block.size);
  return result;
}

TEST(PartitionTest, FollowsFluidsSliceRule) {
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(sizes(partition_dense(set_of(4, {{273, 400}}))), (Sizes{27600, 27600, 27600, 26400}));
  EXPECT_EQ(sizes(partition_dense(set_of(4, {{400}}))), Sizes{400});
  EXPECT_EQ(sizes(partition_dense(set_of(4, {{400, 400}}))), Sizes(4, 40000));
  EXPECT_EQ(sizes(partition_dense(set_of(8, {{10, 1000000}}))), Sizes(5, 2000000));
}

TEST(PartitionTest, RoundRobinGoesOnFromOneParameterToTheNext) {
  wire::ParameterSet set = set_of(3, {{10}, {0, 8}, {20000}, {5}});
  set.mutable_parameters(1)->set_sparse(true);
  const std::vector<DenseBlock> expected = {
      {.parameter = 0, .index = 0, .begin = 0, .size = 10, .shard = 0},
      {.parameter = 2, .index = 0, .begin = 0, .size = 10000, .shard = 1},
      {.parameter = 2, .index = 1, .begin = 10000, .size = 10000, .shard = 2},
      {.parameter = 3, .index = 0, .begin = 0, .size = 5, .shard = 0},
  };
  EXPECT_EQ(partition_dense(set), expected);
}

TEST(PartitionTest, BlocksCoverEachParameterOnceInWholeRows) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::vector<std::uint64_t>> all_dims;
    for (std::uint64_t i = 0, count = 1 + rng.below(5); i < count; ++i) {
      std::vector<std::uint64_t> dims;
      for (std::uint64_t rank = 1 + rng.below(3); rank > 0; --rank)
        dims.push_back(1 + rng.below(200));
      all_dims.push_back(dims);
    }
    wire::ParameterSet set = set_of(1 + static_cast<std::uint32_t>(rng.below(17)), all_dims);
    set.set_min_block_size(rng.below(9000));
    std::vector<std::uint64_t> covered(all_dims.size(), 0);
    for (const DenseBlock& block : partition_dense(set)) {
      ASSERT_EQ(block.begin, covered[block.parameter]) << "round " << round;
      ASSERT_GT(block.size, 0U);
      ASSERT_LT(block.shard, set.dense_shards());
      ASSERT_EQ(block.size % row_width(set.parameters(static_cast<int>(block.parameter))), 0U);
      covered[block.parameter] += block.size;
    }
    for (std::size_t i = 0; i < covered.size(); ++i) {
      ASSERT_EQ(covered[i], element_count(set.parameters(static_cast<int>(i))))
          << "round " << round;
    }
  }
}

std::vector<std::uint32_t> shards(const wire::ParameterSet& set) {
  std::vector<std::uint32_t> result;
  for (const DenseBlock& block : partition_dense(set)) result.push_back(block.shard);
  return result;
}

// Trap 3: rounding to whole rows can leave shards without a block.
TEST(PartitionTest, Trap03RoundingLeavesFewerBlocksThanShards) {
  const auto blocks = partition_dense(set_of(8, {{10, 1000000}}));
  EXPECT_EQ(blocks.size(), 5U);
  EXPECT_EQ(blocks.back().shard, 4U);
  wire::ParameterSet small = set_of(8, {{10, 10}});
  small.set_min_block_size(10);  // below Fluid's 8192, which it refuses
  EXPECT_EQ(sizes(partition_dense(small)), (std::vector<std::uint64_t>{20, 20, 20, 20, 20}));
}

TEST(PartitionTest, WholeParametersAreOneBlockEach) {
  wire::ParameterSet set = set_of(2, {{273, 400}, {400, 400}, {7}});
  set.mutable_partitioning()->set_whole(true);
  EXPECT_EQ(sizes(partition_dense(set)), (std::vector<std::uint64_t>{109200, 160000, 7}));
  EXPECT_EQ(shards(set), (std::vector<std::uint32_t>{0, 1, 0}));
}

// Trap 4: round robin balances blocks, not bytes; size_balanced does. No placement may change from
// one release to the next, because a snapshot does not record it.
TEST(PartitionTest, Trap04PlacementsAreStableAndSizeIsBalanced) {
  wire::ParameterSet set = set_of(2, {{1000, 8}, {8}, {900, 8}, {8}, {100, 8}});
  const auto most = [&] {
    std::vector<std::uint64_t> held(2, 0);
    for (const DenseBlock& block : partition_dense(set)) held[block.shard] += block.size;
    return std::max(held[0], held[1]);
  };
  EXPECT_EQ(shards(set), (std::vector<std::uint32_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(most(), 16000U);
  set.mutable_partitioning()->set_placement(wire::PLACEMENT_SIZE_BALANCED);
  EXPECT_EQ(shards(set), (std::vector<std::uint32_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(most(), 8008U);
  set = set_of(7, {{10}, {20000}, {5}});
  set.mutable_partitioning()->set_placement(wire::PLACEMENT_HASH_NAME);
  std::vector<std::uint32_t> expected;
  for (const char* name : {"p1", "p2.block0", "p2.block1", "p3"}) {
    expected.push_back(static_cast<std::uint32_t>(stable_hash(name) % 7));
  }
  EXPECT_EQ(shards(set), expected);
}

TEST(PartitionTest, ExplicitPlacesWhatItNamesAndTheRestInTurn) {
  wire::ParameterSet set = set_of(3, {{10}, {20000}, {5}, {6}});
  set.mutable_partitioning()->set_placement(wire::PLACEMENT_EXPLICIT);
  wire::PlacedParameter& placed = *set.mutable_partitioning()->add_placed();
  placed.set_parameter("p2");
  placed.set_port(2);
  EXPECT_EQ(shards(set), (std::vector<std::uint32_t>{0, 2, 0, 1, 2}));
}

TEST(PartitionTest, SparseIdsSpreadEvenly) {
  for (const std::uint32_t shards : {2U, 3U, 7U, 16U}) {
    for (const std::uint64_t stride : {1ULL, 4096ULL, 1ULL << 40U}) {
      std::vector<std::uint64_t> counts(shards, 0);
      constexpr std::uint64_t kIds = 100000;
      for (std::uint64_t i = 0; i < kIds; ++i) ++counts.at(sparse_shard(i * stride, shards));
      const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
      EXPECT_GT(*low * shards, kIds * 95 / 100) << shards << " shards, stride " << stride;
      EXPECT_LT(*high * shards, kIds * 105 / 100) << shards << " shards, stride " << stride;
    }
  }
}

TEST(PartitionTest, SparseShardIsTheVirtualShardFolded) {
  for (std::uint64_t id = 0; id < 1000; ++id) {
    EXPECT_LT(virtual_shard(~id), kVirtualShards);
    EXPECT_EQ(sparse_shard(~id, 5), virtual_shard(~id) % 5);
  }
}

}  // namespace
}  // namespace paddle::parameter
