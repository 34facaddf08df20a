#include <vector>

#include <gtest/gtest.h>

#include "engine/math/row_wise.h"

namespace paddle::kernels {
namespace {

TEST(Interaction, GradientsAreWrittenOrAdded) {
  const std::vector<float> v{1, 2, 3, 4};  // two fields of two factors
  const std::vector<float> sums{4, 6};
  for (const bool accumulate : {false, true}) {
    const float before = accumulate ? 10.0F : 0.0F;
    std::vector<float> gradient(4, 10.0F);
    pair_sum_backward(2, 2, v.data(), sums.data(), 2, accumulate, gradient.data());
    EXPECT_EQ(gradient, (std::vector<float>{before + 6, before + 8, before + 2, before + 4}));
    // d cos / d a = b / |b| - cos a for |a| = 1
    const std::vector<float> a{1, 0};
    const std::vector<float> b{3, 4};
    std::vector<float> slope(2, 10.0F);
    cosine_backward(2, cosine(2, a.data(), b.data()), 5, a.data(), b.data(), accumulate,
                    slope.data());
    EXPECT_FLOAT_EQ(slope[0], before);
    EXPECT_FLOAT_EQ(slope[1], before + 4);
  }
}

TEST(Interaction, AddScaledAddsAndDotIsAnInnerProduct) {
  std::vector<float> y{1, 1, 1};
  const std::vector<float> x{1, 2, 3};
  add_scaled(3, 2, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(dot(3, x.data(), y.data()), 34.0F);
}

}  // namespace
}  // namespace paddle::kernels
