#include "engine/kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace paddle::kernels {
namespace {

TEST(Elementwise, ColumnSumAddsToOrReplacesWhatIsThere) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::vector<float> sum{std::numeric_limits<float>::quiet_NaN(), 0};
  column_sum(3, 2, x.data(), 0, sum.data());
  EXPECT_EQ(sum, (std::vector<float>{9, 12}));
  column_sum(3, 2, x.data(), 1, sum.data());
  EXPECT_EQ(sum, (std::vector<float>{18, 24}));
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
