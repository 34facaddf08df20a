#include "tests/unit/engine/nn/gradient.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace paddle::nn {
namespace {

constexpr std::uint64_t kSeed = 5;

}  // namespace

void expect_right_gradient(TestNetwork& test, const Batch& batch) {
  constexpr float kScale =
      0.25F;  // a power of two, so that only the exponents of the gradients change
  test.cost_scale = kScale;
  const double cost_sum = test.run(batch, 1, kSeed);
  std::vector<std::vector<double>> values;
  for (const auto& value : test.values) values.emplace_back(value.begin(), value.end());
  EXPECT_NEAR(cost_sum, reference_cost(test, values, batch, kSeed), 1e-5 * (1 + cost_sum));
  for (std::size_t p = 0; p < values.size(); ++p) {
    double largest = 0;
    for (std::size_t i = 0; i < values[p].size(); ++i) {
      constexpr double kStep = 1e-5;
      const double saved = values[p][i];
      values[p][i] = saved + kStep;
      const double above = reference_cost(test, values, batch, kSeed);
      values[p][i] = saved - kStep;
      const double below = reference_cost(test, values, batch, kSeed);
      values[p][i] = saved;
      const double slope = (above - below) / (2 * kStep);
      largest = std::max(largest, std::fabs(slope));
      ASSERT_NEAR(test.gradients[p][i] / kScale, slope, 2e-5 * (1 + std::fabs(slope)))
          << test.network.parameters()[p].name() << "[" << i << "]";
    }
    EXPECT_GT(largest, 1e-3) << test.network.parameters()[p].name() << " has no influence";
  }
}

}  // namespace paddle::nn
