#include "engine/kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/kernels/exponential.h"
#include "engine/kernels/reference.h"

namespace paddle::kernels {
namespace {

TEST(Elementwise, ExponentialIsWithinItsErrorBound) {
  double worst = 0;
  for (double x = -87.2; x < 88.2; x += 0.000731) {
    const auto single = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(single));
    worst = std::max(worst, std::fabs(exponential(single) - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(exponential(0.0F), 1.0F);
}

TEST(Elementwise, ExponentialSaturatesAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_GT(exponential(-infinity), 0.0F);
  EXPECT_LT(exponential(-infinity), 1.3e-38F);
  EXPECT_TRUE(std::isfinite(exponential(infinity)));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Elementwise, ActivationsMatchReferenceAfterTheBias) {
  constexpr std::size_t kRows = 997;
  constexpr std::size_t kWidth = 37;
  const std::vector<float> bias(kWidth, 0.25F);
  for (const Activation activation :
       {Activation::kIdentity, Activation::kSigmoid, Activation::kRelu, Activation::kTanh}) {
    std::vector<float> x(kRows * kWidth);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = -20.0F + static_cast<float>(i) * 0.00109F;
    std::vector<float> y = x;
    bias_activate(activation, kRows, kWidth, bias.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = reference::activate(activation, static_cast<double>(x[i] + 0.25F));
      ASSERT_NEAR(y[i], exact, 3e-7) << x[i];
    }
  }
}

TEST(Elementwise, TanhKeepsRelativePrecisionNearZero) {
  for (float x = 1e-6F; x < 0.6F; x *= 1.01F) {
    float y = x;
    bias_activate(Activation::kTanh, 1, 1, nullptr, &y);
    ASSERT_NEAR(y / std::tanh(static_cast<double>(x)), 1.0, 1e-6) << x;
  }
}

TEST(Elementwise, BackwardMultipliesByTheDerivative) {
  for (const Activation activation :
       {Activation::kIdentity, Activation::kSigmoid, Activation::kRelu, Activation::kTanh}) {
    for (const double x : {-2.0, -0.5, 0.75, 3.0}) {
      const double h = 1e-6;
      const double slope =
          (reference::activate(activation, x + h) - reference::activate(activation, x - h)) /
          (2 * h);
      const auto y = static_cast<float>(reference::activate(activation, x));
      float gradient = 3.0F;
      activation_backward(activation, 1, 1, &y, &gradient);
      EXPECT_NEAR(gradient, 3.0 * slope, 1e-5);
    }
  }
}

TEST(Elementwise, ColumnSumAddsToOrReplacesWhatIsThere) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::vector<float> sum{std::numeric_limits<float>::quiet_NaN(), 0};
  column_sum(3, 2, x.data(), 0, sum.data());
  EXPECT_EQ(sum, (std::vector<float>{9, 12}));
  column_sum(3, 2, x.data(), 1, sum.data());
  EXPECT_EQ(sum, (std::vector<float>{18, 24}));
}

TEST(Elementwise, BackwardSumsTheColumnsOfWhatItLeaves) {
  constexpr std::size_t kRows = 11;
  constexpr std::size_t kWidth = 900;  // more than one block of rows
  Rng rng(4);
  std::vector<float> y(kRows * kWidth);
  std::vector<float> gradient(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<float>(std::max(0.0, rng.normal()));
    gradient[i] = static_cast<float>(rng.normal());
  }
  for (const float beta : {0.0F, 1.0F}) {
    std::vector<float> sum(kWidth, 2.0F);
    std::vector<float> expected = sum;
    auto with_sum = gradient;
    activation_backward(Activation::kRelu, kRows, kWidth, y.data(), with_sum.data(), beta,
                        sum.data());
    auto alone = gradient;
    activation_backward(Activation::kRelu, kRows, kWidth, y.data(), alone.data());
    EXPECT_EQ(with_sum, alone);
    column_sum(kRows, kWidth, alone.data(), beta, expected.data());
    EXPECT_EQ(sum, expected);
  }
}

TEST(Elementwise, DropoutMaskHasTheRateAndIsAFunctionOfTheStream) {
  constexpr std::size_t kCount = 100000;
  std::vector<float> mask(kCount);
  std::vector<float> other(kCount);
  dropout_mask(7, 0.3F, kCount, mask.data());
  dropout_mask(7, 0.3F, kCount, other.data());
  EXPECT_EQ(mask, other);
  dropout_mask(mix64(8), 0.3F, kCount, other.data());
  EXPECT_NE(mask, other);
  double sum = 0;
  std::size_t dropped = 0;
  for (const float value : mask) {
    sum += value;
    if (value == 0.0F) ++dropped;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / kCount, 0.3, 0.01);
  EXPECT_NEAR(sum / kCount, 1.0, 0.01);
}

}  // namespace
}  // namespace paddle::kernels
