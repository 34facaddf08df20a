#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/rank_sums.h"

namespace paddle::kernels {
namespace {

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

std::vector<float> sum_of(const std::vector<std::vector<float>>& buffers,
                          const std::vector<float>& weights) {
  std::vector<const float*> x;
  for (const auto& buffer : buffers) x.push_back(buffer.data());
  std::vector<float> y(buffers.front().size(), -1);
  weighted_sum(y.size(), x, weights, y.data());
  return y;
}

// As a pserver merges: from zero, in the order of trainers.
std::vector<float> merged(const std::vector<std::vector<float>>& buffers,
                          const std::vector<float>& weights) {
  std::vector<float> y(buffers.front().size(), 0.0F);
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += weights[k] * buffers[k][i];
  }
  return y;
}

std::vector<std::vector<float>> random_buffers(std::size_t ranks, std::size_t count) {
  Rng rng(ranks * 1000 + count);
  std::vector<std::vector<float>> buffers(ranks, std::vector<float>(count));
  for (auto& buffer : buffers) {
    for (float& value : buffer) {
      value = static_cast<float>(rng.normal() * std::pow(10.0, 8 * rng.uniform() - 4));
    }
  }
  return buffers;
}

TEST(WeightedSum, HasTheBitsOfAMergeFromLeftToRight) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U, 7U, 17U}) {
    for (const std::size_t count : {0U, 1U, 15U, 16U, 2047U, 2048U, 2049U, 10'001U}) {
      const auto buffers = random_buffers(ranks, count);
      std::vector<float> weights;
      for (std::size_t k = 0; k < ranks; ++k) {
        weights.push_back(static_cast<float>(k + 1) / static_cast<float>(ranks * 2));
      }
      EXPECT_EQ(bits(sum_of(buffers, weights)), bits(merged(buffers, weights)))
          << ranks << " buffers of " << count;
    }
  }
}

TEST(WeightedSum, MayBeWrittenOverAnyOfTheBuffers) {
  for (const std::size_t ranks : {2U, 3U, 5U}) {
    const auto buffers = random_buffers(ranks, 5000);
    const std::vector<float> weights(ranks, 0.25F);
    const auto expected = merged(buffers, weights);
    for (std::size_t target = 0; target < ranks; ++target) {
      auto copy = buffers;
      std::vector<const float*> x;
      for (const auto& buffer : copy) x.push_back(buffer.data());
      weighted_sum(copy[target].size(), x, weights, copy[target].data());
      EXPECT_EQ(bits(copy[target]), bits(expected)) << target << " of " << ranks;
    }
  }
}

TEST(WeightedSum, Trap13TheOrderIsThatOfRanks) {
  const std::vector<std::vector<float>> buffers{{1e8F}, {1}, {-1e8F}, {1}};
  EXPECT_EQ(sum_of(buffers, {1, 1, 1, 1}), std::vector<float>{1});  // (1e8 + 1) - 1e8 + 1
}

TEST(WeightedSum, Trap14SpecialValuesPassAsInAMerge) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  const std::vector<std::vector<float>> buffers{{-0.0F, kTiny, kInf, kInf},
                                                {-0.0F, kTiny, 1, -kInf}};
  const auto sum = sum_of(buffers, {1, 1});
  EXPECT_EQ(bits({sum[0], sum[1], sum[2]}), bits({0.0F, 2 * kTiny, kInf}));
  EXPECT_TRUE(std::isnan(sum[3]));
}

TEST(WeightedSum, Trap14OneContributorIsTakenAsItIsAndTheOthersAreNotRead) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> buffers{{nan, nan}, {-0.0F, 3}, {nan, nan}};
  EXPECT_EQ(bits(sum_of(buffers, {0, 1, 0})), bits({-0.0F, 3}));
  EXPECT_EQ(bits(sum_of(buffers, {0, 0, 0})), bits({0, 0}));
}

}  // namespace
}  // namespace paddle::kernels
