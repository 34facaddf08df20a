#include "engine/param/partition.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "engine/param/parameter_set.h"

namespace paddle::param {
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
}  // namespace paddle::param
