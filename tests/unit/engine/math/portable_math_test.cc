#include "engine/math/portable_math.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace paddle::kernels {
namespace {

TEST(Exponential, IsWithinItsErrorBound) {
  double worst = 0;
  for (double x = -87.2; x < 88.2; x += 0.000731) {
    const auto single = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(single));
    worst = std::max(worst, std::fabs(exponential(single) - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(exponential(0.0F), 1.0F);
}

TEST(Exponential, SaturatesAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_GT(exponential(-infinity), 0.0F);
  EXPECT_LT(exponential(-infinity), 1.3e-38F);
  EXPECT_TRUE(std::isfinite(exponential(infinity)));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace paddle::kernels
