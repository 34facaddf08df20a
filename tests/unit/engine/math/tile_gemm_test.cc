#include "engine/math/tile_gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "engine/math/activation.h"
#include "tests/unit/engine/math/reference.h"

namespace paddle::kernels {
namespace {

using Multiply = decltype(&tile_gemm);

class TileGemm : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_tile_gemm()) GTEST_SKIP() << "the CPU has no AMX-BF16";
  }
};

constexpr Transpose kBoth[] = {Transpose::kNo, Transpose::kYes};

// Whole tiles, tails in each direction, and more than one block along k and along n.
constexpr std::size_t kShapes[][3] = {{1, 1, 1},      {3, 16, 1},     {16, 16, 32},   {32, 32, 64},
                                      {17, 33, 31},   {31, 49, 33},   {100, 50, 100}, {15, 2081, 9},
                                      {29, 40, 1201}, {130, 70, 530}, {40, 1100, 600}};

// The largest distance of an element from the product in float64, as a share of the sum of its
// terms' absolute values.
double distance(Multiply multiply, Transpose ta, Transpose tb, std::size_t m, std::size_t n,
                std::size_t k, bool accumulate, bool is_rounded) {
  const auto a = reference::random_floats(m * k, 1);
  const auto b = reference::random_floats(k * n, 2);
  auto c = reference::random_floats(m * n, 3);
  const auto factors = [&](const std::vector<float>& from, bool is_absolute) {
    std::vector<double> values;
    for (const float value : from) {
      const float used = is_rounded ? reference::round_to_bfloat16(value) : value;
      values.push_back(is_absolute ? std::abs(used) : used);
    }
    return values;
  };
  std::vector<double> right(c.begin(), c.end());
  std::vector<double> sizes;
  for (const float value : c) sizes.push_back(std::abs(value));
  reference::gemm(ta, tb, m, n, k, factors(a, false).data(), factors(b, false).data(), accumulate,
                  right.data());
  reference::gemm(ta, tb, m, n, k, factors(a, true).data(), factors(b, true).data(), accumulate,
                  sizes.data());
  multiply(ta, tb, m, n, k, a.data(), b.data(), accumulate, c.data(), n, {});
  double worst = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(c[i]) - right[i]) / sizes[i]);
  }
  return worst;
}

void expect_near_float64(Multiply multiply, bool is_rounded) {
  for (const auto& [m, n, k] : kShapes) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        for (const bool accumulate : {false, true}) {
          EXPECT_LT(distance(multiply, ta, tb, m, n, k, accumulate, is_rounded), 1e-6)
              << m << ' ' << n << ' ' << k;
        }
      }
    }
  }
}

TEST_F(TileGemm, RoundsOnlyTheFactorsToBfloat16) {
  expect_near_float64(tile_gemm, true);
}

TEST_F(TileGemm, OfPartsIsNearlyFloat32) {
  expect_near_float64(tile_gemm_of_parts, false);
}

// A part of a factor that is forgotten changes these: 1 + 2^-9 + 2^-18 has three.
TEST_F(TileGemm, OfPartsHasAllBitsOfAFactor) {
  const float value = 1 + 0x1p-9F + 0x1p-18F;
  const std::vector<float> a(16, value);
  const std::vector<float> b{1};
  std::vector<float> c(16);
  tile_gemm_of_parts(Transpose::kNo, Transpose::kNo, 16, 1, 1, a.data(), b.data(), false, c.data(),
                     1, {});
  EXPECT_EQ(c, a);
  std::vector<float> d(16);
  tile_gemm_of_parts(Transpose::kNo, Transpose::kNo, 1, 16, 1, b.data(), a.data(), false, d.data(),
                     16, {});
  EXPECT_EQ(d, a);
}

TEST_F(TileGemm, EndsWithItsEpilogueAndLeavesWhatIsBetweenTheRowsAlone) {
  for (const Multiply multiply : {&tile_gemm, &tile_gemm_of_parts}) {
    for (const auto& [m, n, k] : kShapes) {
      const std::size_t stride = n + 5;
      const auto a = reference::random_floats(m * k, 1);
      const auto b = reference::random_floats(k * n, 2);
      const auto bias = reference::random_floats(n, 3);
      for (const bool accumulate : {false, true}) {
        auto wide = reference::random_floats(m * stride, 4);
        auto expected = wide;
        std::vector<float> sum(m * n);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = wide[i / n * stride + i % n];
        multiply(Transpose::kNo, Transpose::kNo, m, n, k, a.data(), b.data(), accumulate,
                 sum.data(), n, {});
        bias_activate(*find_activation("relu"), m, n, bias.data(), sum.data());
        for (std::size_t i = 0; i < sum.size(); ++i) expected[i / n * stride + i % n] = sum[i];
        multiply(Transpose::kNo, Transpose::kNo, m, n, k, a.data(), b.data(), accumulate,
                 wide.data(), stride, {bias.data(), true});
        ASSERT_EQ(wide, expected) << m << ' ' << n << ' ' << k;
      }
    }
  }
}

TEST_F(TileGemm, GivesARowTheSameBitsAmongFewAndMany) {
  constexpr std::size_t kMany = 41;
  const std::size_t shapes[][2] = {{37, 270}, {64, 512}, {130, 1100}, {12, 65}};
  for (const Multiply multiply : {&tile_gemm, &tile_gemm_of_parts}) {
    for (const auto& [n, k] : shapes) {
      const auto a = reference::random_floats(kMany * k, 1);
      const auto b = reference::random_floats(k * n, 2);
      const auto begin = reference::random_floats(kMany * n, 4);
      auto all = begin;
      multiply(Transpose::kNo, Transpose::kNo, kMany, n, k, a.data(), b.data(), true, all.data(), n,
               {});
      for (const std::size_t few : {1U, 15U, 16U, 17U, 32U, 33U}) {
        const std::size_t skipped = kMany - few;
        std::vector<float> last(begin.end() - static_cast<std::ptrdiff_t>(few * n), begin.end());
        multiply(Transpose::kNo, Transpose::kNo, few, n, k, a.data() + skipped * k, b.data(), true,
                 last.data(), n, {});
        ASSERT_TRUE(
            std::equal(last.begin(), last.end(), all.end() - static_cast<std::ptrdiff_t>(few * n)))
            << few << " rows, " << n << " columns, " << k;
      }
    }
  }
}

TEST_F(TileGemm, KeepsANotANumberInItsRowAndDoesNotReadWhatItReplaces) {
  constexpr std::size_t kSize = 20;
  auto a = reference::random_floats(kSize * kSize, 1);
  const auto b = reference::random_floats(kSize * kSize, 2);
  a[3 * kSize + 7] = std::numeric_limits<float>::infinity();
  std::vector<float> c(kSize * kSize, std::numeric_limits<float>::quiet_NaN());
  for (const Multiply multiply : {&tile_gemm, &tile_gemm_of_parts}) {
    multiply(Transpose::kNo, Transpose::kNo, kSize, kSize, kSize, a.data(), b.data(), false,
             c.data(), kSize, {});
    for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(std::isfinite(c[i]), i / kSize != 3) << i;
  }
}

TEST_F(TileGemm, GivesTheSameBitsOnManyThreads) {
  constexpr std::size_t kSize = 50;
  const auto a = reference::random_floats(kSize * kSize, 1);
  const auto b = reference::random_floats(kSize * kSize, 2);
  const auto multiply = [&](std::vector<float>& c) {
    tile_gemm(Transpose::kNo, Transpose::kNo, kSize, kSize, kSize, a.data(), b.data(), false,
              c.data(), kSize, {});
  };
  std::vector<float> expected(kSize * kSize);
  multiply(expected);
  EXPECT_EQ(reference::differ_on_threads(expected, 300, multiply), 0);
}

}  // namespace
}  // namespace paddle::kernels
