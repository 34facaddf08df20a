#include "engine/math/activation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/elementwise.h"
#include "tests/unit/engine/math/reference.h"

namespace paddle::kernels {
namespace {

// All but softmax.
constexpr const char* kElementwise[] = {"identity", "sigmoid", "relu", "tanh", "gelu"};

TEST(Activation, ActivationsMatchReferenceAfterTheBias) {
  constexpr std::size_t kRows = 997;
  constexpr std::size_t kWidth = 37;
  const std::vector<float> bias(kWidth, 0.25F);
  for (const char* name : kElementwise) {
    const Activation& activation = *find_activation(name);
    std::vector<float> x(kRows * kWidth);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = -20.0F + static_cast<float>(i) * 0.00109F;
    std::vector<float> y = x;
    bias_activate(activation, kRows, kWidth, bias.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = reference::activate(name, static_cast<double>(x[i] + 0.25F));
      ASSERT_NEAR(y[i], exact, 3e-7 * std::max(1.0, std::fabs(exact))) << name << x[i];
    }
  }
}

TEST(Activation, ReluHasNoSlopeAtZero) {
  const std::vector<float> y{0, 1};
  std::vector<float> gradient{5, 5};
  activation_backward(*find_activation("relu"), 1, 2, y.data(), gradient.data());
  EXPECT_EQ(gradient, (std::vector<float>{0, 5}));
}

TEST(Activation, TanhKeepsRelativePrecisionNearZero) {
  for (float x = 1e-6F; x < 0.6F; x *= 1.01F) {
    float y = x;
    bias_activate(*find_activation("tanh"), 1, 1, nullptr, &y);
    ASSERT_NEAR(y / std::tanh(static_cast<double>(x)), 1.0, 1e-6) << x;
  }
}

TEST(Activation, BackwardMultipliesByTheDerivative) {
  for (const char* name : kElementwise) {
    const Activation& activation = *find_activation(name);
    for (const double x : {-2.0, -0.5, 0.75, 3.0}) {
      const double h = 1e-6;
      const double slope =
          (reference::activate(name, x + h) - reference::activate(name, x - h)) / (2 * h);
      const auto kept =
          static_cast<float>(activation.reads_input ? x : reference::activate(name, x));
      float gradient = 3.0F;
      activation_backward(activation, 1, 1, &kept, &gradient);
      EXPECT_NEAR(gradient, 3.0 * slope, 1e-5);
    }
  }
}

// Phi would be 0 or 1, and the density 0, where the exponential saturates.
TEST(Activation, GeluIsTheInputOrZeroFarOut) {
  const Activation& gelu = *find_activation("gelu");
  const std::vector<float> x{-3e38F, -1e20F, -40, 40, 1e20F, 3e38F};
  std::vector<float> y = x;
  gelu.apply(1, x.size(), y.data());
  std::vector<float> gradient(x.size(), 2.0F);
  gelu.backward(1, x.size(), x.data(), gradient.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], std::max(x[i], 0.0F)) << x[i];
    EXPECT_EQ(gradient[i], x[i] > 0 ? 2.0F : 0.0F) << x[i];
  }
  float nan = std::nanf("");
  gelu.apply(1, 1, &nan);
  EXPECT_TRUE(std::isnan(nan));
}

TEST(Activation, BackwardSumsTheColumnsOfWhatItLeaves) {
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
    activation_backward(*find_activation("relu"), kRows, kWidth, y.data(), with_sum.data(), beta,
                        sum.data());
    auto alone = gradient;
    activation_backward(*find_activation("relu"), kRows, kWidth, y.data(), alone.data());
    EXPECT_EQ(with_sum, alone);
    column_sum(kRows, kWidth, alone.data(), beta, expected.data());
    EXPECT_EQ(sum, expected);
  }
}

}  // namespace
}  // namespace paddle::kernels
