#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/rank_sums.h"

namespace paddle::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

float widened(Bf16 q) {
  return std::bit_cast<float>(std::uint32_t{q} << 16U);
}
std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, bits, bits);
}

// The nearest of the two neighbours, by distance.
Bf16 nearest(float value) {
  if (std::isnan(value)) return static_cast<Bf16>((bits(value) | 0x400000U) >> 16U);
  const auto down = static_cast<Bf16>(bits(value) >> 16U);  // towards zero
  const auto up = static_cast<Bf16>(down + 1);
  if (std::isinf(value)) return down;
  const double below = std::abs(double{value} - double{widened(down)});
  // The distance to a number that the exponent has no room for.
  const double step = std::abs(double{widened(down)} - double{widened(down ^ 1U)});
  const double above =
      std::isinf(widened(up)) ? step - below : std::abs(double{widened(up)} - double{value});
  if (below == above) return down % 2 == 0 ? down : up;
  return below < above ? down : up;
}

// Values of all sizes, and some that are hard to round.
std::vector<float> values_of(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const auto any = static_cast<std::uint32_t>(rng.below(std::uint64_t{1} << 32U));
    value = std::bit_cast<float>(rng.below(4) == 0 ? (any & 0xffff0000U) | 0x8000U : any);
    if (!std::isfinite(value)) value = 0;
  }
  return values;
}

const std::vector<std::size_t> kCounts{0, 1, 15, 17, 2047, 2049, 10'001};

TEST(Bf16, RoundsToTheNearestAndToEven) {
  for (const std::size_t count : kCounts) {
    const std::vector<float> x = values_of(count, count);
    std::vector<float> residual(count, 0.0F);
    std::vector<Bf16> q(count);
    round_with_residual(count, x.data(), 1, residual.data(), q.data());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(q[i], nearest(x[i])) << bits(x[i]);
      if (std::isinf(widened(q[i]))) continue;
      // Nothing is lost: the residual is exact.
      ASSERT_EQ(widened(q[i]) + double{residual[i]}, double{x[i]}) << bits(x[i]);
    }
  }
}

TEST(Bf16, AResidualIsMadeUpFor) {
  Rng rng(3);
  const std::size_t count = 5001;
  std::vector<float> x(count);
  std::vector<float> residual(count, 0.0F);
  for (float& value : x) value = static_cast<float>(rng.normal());
  std::vector<Bf16> q(count);
  std::vector<float> expected_residual(count, 0.0F);
  for (int step = 0; step < 20; ++step) {
    round_with_residual(count, x.data(), 0.3F, residual.data(), q.data());
    for (std::size_t i = 0; i < count; ++i) {
      const float sum = 0.3F * x[i] + expected_residual[i];
      ASSERT_EQ(q[i], nearest(sum));
      expected_residual[i] = sum - widened(q[i]);
    }
    ASSERT_TRUE(same_bits(residual, expected_residual));
  }
  // With weight 0 only what is left of before goes.
  const std::vector<float> nan(count, std::numeric_limits<float>::quiet_NaN());
  for (int step = 0; step < 3; ++step) {
    round_with_residual(count, nan.data(), 0, residual.data(), q.data());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(q[i], nearest(expected_residual[i]));
      expected_residual[i] -= widened(q[i]);
    }
    ASSERT_TRUE(same_bits(residual, expected_residual));
  }
}

TEST(Bf16, Trap14SpecialValuesPassAndLeaveNothingBehind) {
  const float nan = std::bit_cast<float>(0x7f800001U);  // its bit is in the half that is cut off
  const std::vector<float> x{kInfinity, -kInfinity, nan, -nan, kMax, -kMax, -0.0F, 1e-45F};
  std::vector<float> residual(x.size(), 0.0F);
  std::vector<Bf16> q(x.size());
  round_with_residual(x.size(), x.data(), 1, residual.data(), q.data());
  EXPECT_EQ(widened(q[0]), kInfinity);
  EXPECT_EQ(widened(q[1]), -kInfinity);
  EXPECT_TRUE(std::isnan(widened(q[2])));
  EXPECT_TRUE(std::isnan(widened(q[3])));
  EXPECT_EQ(widened(q[4]), kInfinity);  // as a sum that is too large
  EXPECT_EQ(widened(q[5]), -kInfinity);
  EXPECT_EQ(q[6], q[7]);
  EXPECT_EQ(widened(q[7]), 0);
  EXPECT_TRUE(same_bits(residual, {0, 0, 0, 0, 0, 0, 0, 1e-45F}));
  std::vector<float> y(x.size(), 1.0F);
  round_move(2, x.data(), y.data(), q.data());
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_EQ(y[1], -kInfinity);
}

TEST(Bf16, AMoveComesToItsTarget) {
  for (const std::size_t count : kCounts) {
    Rng rng(count);
    std::vector<float> target(count);
    std::vector<float> y(count);
    for (std::size_t i = 0; i < count; ++i) {
      target[i] = static_cast<float>(rng.normal());
      y[i] = static_cast<float>(rng.normal());
    }
    std::vector<float> expected = y;
    std::vector<float> elsewhere = y;
    std::vector<Bf16> q(count);
    for (int step = 0; step < 5; ++step) {
      round_move(count, target.data(), y.data(), q.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(q[i], nearest(target[i] - expected[i]));
        expected[i] += widened(q[i]);
      }
      ASSERT_TRUE(same_bits(y, expected));
      add_bf16(count, q.data(), elsewhere.data());
      ASSERT_TRUE(same_bits(y, elsewhere));
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(y[i], target[i], 1e-6F * std::abs(target[i]));
    }
  }
}

TEST(Bf16, SumsFromLeftToRightWithTheOwnTermInItsPlace) {
  for (const std::size_t ranks : {1U, 2U, 3U, 7U}) {
    for (const std::size_t count : kCounts) {
      Rng rng(ranks * 100'000 + count);
      std::vector<std::vector<Bf16>> terms(ranks, std::vector<Bf16>(count));
      for (auto& term : terms) {
        for (Bf16& q : term) q = nearest(static_cast<float>(rng.normal()));
      }
      std::vector<const Bf16*> x;
      for (const auto& term : terms) x.push_back(term.data());
      for (const float weight : {0.0F, 0.3F}) {
        for (std::size_t own = 0; own < ranks; ++own) {
          std::vector<float> y(count);
          for (float& value : y) value = static_cast<float>(rng.normal());
          std::vector<float> expected(count, 0.0F);
          for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t k = 0; k < ranks; ++k) {
              if (k == own && weight == 0) continue;
              expected[i] += k == own ? weight * y[i] : widened(terms[k][i]);
            }
          }
          sum_bf16(count, x, own, weight, y.data());
          ASSERT_TRUE(same_bits(y, expected)) << own << " of " << ranks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paddle::kernels
