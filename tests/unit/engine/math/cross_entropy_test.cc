#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/costs.h"
#include "tests/unit/engine/math/reference.h"

namespace paddle::kernels {
namespace {

TEST(Softmax, CostAndGradientMatchReferenceAtEveryWidth) {
  for (const std::size_t width : {1UL, 2UL, 3UL, 4UL, 5UL, 31UL, 32UL, 33UL, 100UL, 2073UL}) {
    Rng rng(width);
    std::vector<float> logits(width);
    for (float& logit : logits) logit = static_cast<float>(5 * rng.normal());
    const std::size_t label = rng.below(width);
    std::vector<float> gradient(width);
    const SoftmaxCost result =
        softmax_cross_entropy(width, logits.data(), label, 1, gradient.data());
    std::vector<double> exact_gradient;
    const double exact =
        reference::softmax_cross_entropy({logits.begin(), logits.end()}, label, &exact_gradient);
    EXPECT_NEAR(result.cost, exact, 1e-5) << width;
    for (std::size_t i = 0; i < width; ++i) ASSERT_NEAR(gradient[i], exact_gradient[i], 1e-6);
    for (const float logit : logits) EXPECT_LE(logit, logits[result.prediction]);
  }
}

TEST(Softmax, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits{3e38F, -3e38F, 1e30F};
  std::vector<float> gradient(3);
  const SoftmaxCost result = softmax_cross_entropy(3, logits.data(), 0, 1, gradient.data());
  EXPECT_NEAR(result.cost, 0, 1e-6);
  EXPECT_NEAR(gradient[0], 0, 1e-6);
}

TEST(Softmax, ANanLogitShowsInTheCost) {
  const std::vector<float> logits{1, std::numeric_limits<float>::quiet_NaN(), 2};
  std::vector<float> gradient(3);
  EXPECT_TRUE(std::isnan(softmax_cross_entropy(3, logits.data(), 0, 1, gradient.data()).cost));
}

// The logarithm of a C library differs from that of CUDA in its last bit.
TEST(Softmax, TheCostHasTheLogarithmThatACardHas) {
  Rng rng(4);
  for (int i = 0; i < 10'000; ++i) {
    const auto sum = static_cast<float>(1 + 2073 * rng.uniform());
    ASSERT_EQ(softmax_cost_of(sum, 2, 2), logarithm(static_cast<double>(sum))) << sum;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(softmax_cost_of(nan, 2, 1)));
  EXPECT_TRUE(std::isnan(softmax_cost_of(1, nan, 1)));
  EXPECT_TRUE(std::isnan(softmax_cost_of(1, 2, nan)));
}

TEST(Softmax, TheFirstOfEqualLogitsIsPredicted) {
  const std::vector<float> logits{1, 4, 4};
  std::vector<float> gradient(3);
  EXPECT_EQ(softmax_cross_entropy(3, logits.data(), 0, 0, gradient.data()).prediction, 1U);
}

// Vectors compute several at once, and must give the bits of the formula for one.
TEST(CandidateCosts, OfManyAreThoseOfEachAlone) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<float> logits{0,      -0.0F, kInfinite, -kInfinite, std::nanf(""), 1e30F,
                            -1e30F, 88,    -88,       1e-30F,     17.5F,         -17.5F};
  const auto more = reference::random_floats(100, 1);
  logits.insert(logits.end(), more.begin(), more.end());
  for (std::size_t count = 0; count <= logits.size(); ++count) {
    std::vector<float> labels, slopes(logits.begin(), logits.begin() + static_cast<long>(count));
    for (std::size_t i = 0; i < count; ++i) labels.push_back(i % 6 == 0 ? 1.0F : 0.0F);
    std::vector<double> costs(count);
    candidate_costs(count, labels.data(), 0.25F, costs.data(), slopes.data());
    for (std::size_t i = 0; i < count; ++i) {
      const ElementCost one = candidate_cost_of(logits[i], i % 6 == 0, 0.25F);
      EXPECT_EQ(std::bit_cast<std::uint64_t>(costs[i]), std::bit_cast<std::uint64_t>(one.cost));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(slopes[i]), std::bit_cast<std::uint32_t>(one.slope));
    }
  }
}

}  // namespace
}  // namespace paddle::kernels
