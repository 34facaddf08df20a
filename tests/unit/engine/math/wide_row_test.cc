// Kernels that reduce a row, at widths around the number of lanes, against double precision.
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/activation.h"
#include "engine/math/costs.h"
#include "engine/math/formulas.h"
#include "engine/math/portable_math.h"
#include "engine/math/row_wise.h"
#include "tests/unit/engine/math/reference.h"

namespace paddle::kernels {
namespace {

std::vector<float> normals(std::size_t count, std::uint64_t seed, double mean = 0) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& one : values) one = static_cast<float>(mean + rng.normal());
  return values;
}

double dot_of(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](double x, double y) { return x * y; });
}

class WideRow : public testing::TestWithParam<std::size_t> {};

TEST_P(WideRow, LayerNormHasMeanBiasAndDeviationGain) {
  const std::size_t width = GetParam();
  const std::vector<float> x = normals(2 * width, 1, 100);
  const std::vector<float> gain(width, 2.0F);
  const std::vector<float> bias(width, 0.5F);
  std::vector<float> y(2 * width);
  std::vector<float> statistics(4);
  layer_norm(2, width, 1e-5F, x.data(), gain.data(), bias.data(), y.data(), statistics.data());
  for (std::size_t row = 0; row < 2; ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto count = static_cast<double>(width);
    const double mean =
        std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(width), 0.0) / count;
    double variance = 0;
    for (std::size_t c = 0; c < width; ++c) {
      const double off = static_cast<double>(x[row * width + c]) - mean;
      variance += off * off / count;
    }
    for (std::size_t c = 0; c < width; ++c) {
      const double off = static_cast<double>(x[row * width + c]) - mean;
      ASSERT_NEAR(y[row * width + c], 2 * off / std::sqrt(variance + 1e-5) + 0.5, 2e-4);
    }
  }
}

TEST_P(WideRow, DotCosineAndPairSum) {
  const std::size_t width = GetParam();
  const std::vector<float> a = normals(width, 2);
  const std::vector<float> b = normals(width, 3);
  EXPECT_NEAR(dot(width, a.data(), b.data()), dot_of(a, b), 1e-4);
  EXPECT_NEAR(cosine(width, a.data(), b.data()).value(),
              dot_of(a, b) / std::sqrt(dot_of(a, a) * dot_of(b, b)), 1e-6);
  std::vector<float> sums(width, 0);
  std::vector<float> squares(width, 0);
  add_fields(1, width, a.data(), sums.data(), squares.data());
  add_fields(1, width, b.data(), sums.data(), squares.data());
  EXPECT_NEAR(pair_sum(width, sums.data(), squares.data()), dot_of(a, b), 1e-4);
}

TEST_P(WideRow, SoftmaxAndItsSlope) {
  const std::size_t width = GetParam();
  const std::vector<float> x = normals(width, 4);
  std::vector<float> y = x;
  bias_activate(*find_activation("softmax"), 1, width, nullptr, y.data());
  const std::vector<double> exact = reference::softmax({x.begin(), x.end()});
  for (std::size_t c = 0; c < width; ++c) ASSERT_NEAR(y[c], exact[c], 3e-7);
  const std::vector<float> upstream = normals(width, 5);
  std::vector<float> gradient = upstream;
  activation_backward(*find_activation("softmax"), 1, width, y.data(), gradient.data());
  double mean = 0;
  for (std::size_t c = 0; c < width; ++c) mean += exact[c] * static_cast<double>(upstream[c]);
  for (std::size_t c = 0; c < width; ++c) {
    ASSERT_NEAR(gradient[c], exact[c] * (static_cast<double>(upstream[c]) - mean), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, WideRow, testing::Values(1, 2, 31, 32, 33, 65, 400));

TEST(Logistic, LogarithmAndSoftplusAreWithinTheirBounds) {
  for (double x = 1e-300; x < 1e300; x *= 1.37)
    EXPECT_NEAR(logarithm(x), std::log(x), 1e-13 * (1 + std::fabs(std::log(x))));
  for (double x = 0.3; x < 3; x += 0.001) EXPECT_NEAR(logarithm(x), std::log(x), 1e-13);
  for (double x = -80; x < 80; x += 0.0137) {
    const auto single = static_cast<float>(x);
    const auto wide = static_cast<double>(single);
    EXPECT_NEAR(softplus(single), wide > 30 ? wide : std::log1p(std::exp(wide)),
                3e-7 * (1 + std::fabs(wide)));
    EXPECT_NEAR(sigmoid(single), 1 / (1 + std::exp(-wide)), 3e-7);
  }
  EXPECT_TRUE(std::isnan(softplus(std::nanf(""))));
}

}  // namespace
}  // namespace paddle::kernels
