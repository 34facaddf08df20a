#include "engine/math/elementwise.h"

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
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    sum += static_cast<double>(mask[i]);
    if (mask[i] == 0.0F) ++dropped;
    if (i > 0 && mask[i - 1] == 0.0F && mask[i] == 0.0F) ++pairs;
  }
  EXPECT_NEAR(static_cast<double>(pairs) / kCount, 0.3 * 0.3, 0.01);  // neighbours are independent
  EXPECT_NEAR(static_cast<double>(dropped) / kCount, 0.3, 0.01);
  EXPECT_NEAR(sum / kCount, 1.0, 0.01);
}

TEST(Elementwise, MultiplyWritesOrAdds) {
  const std::vector<float> x{1, 2, 3};
  const std::vector<float> scale{4, 5, 6};
  std::vector<float> y{100, 100, 100};
  multiply(3, x.data(), scale.data(), true, y.data());
  EXPECT_EQ(y, (std::vector<float>{104, 110, 118}));
  multiply(3, x.data(), scale.data(), false, y.data());
  EXPECT_EQ(y, (std::vector<float>{4, 10, 18}));
  multiply_by(3, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{4, 20, 54}));
}

}  // namespace
}  // namespace paddle::kernels
