#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "engine/math/portable_math.h"
#include "engine/math/row_wise.h"
#include "engine/math/rows.h"
#include "tests/unit/engine/math/reference.h"

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

TEST(Interaction, DotsHaveTheBitsOfLaneSums) {
  for (std::size_t width = 1; width <= 130; ++width) {
    constexpr std::size_t kRows = 8;
    const auto x = reference::random_floats(width, width);
    const auto table = reference::random_floats(kRows * width, 1000 + width);
    const std::vector<std::uint32_t> rows{4, 7, kNoRow, 7, 0, 7, 4, 7};  // every second one counts
    std::vector<float> out(4, -1);
    dots(width, x.data(), table.data(), 4, rows.data(), 2, out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint32_t row = rows[2 * i];
      if (row == kNoRow) {
        ASSERT_EQ(out[i], 0) << width;
        continue;
      }
      const float* const of = table.data() + row * width;
      const float sum = lane_sum(width, [&](std::size_t c) { return x[c] * of[c]; });
      ASSERT_EQ(out[i], sum) << width;
      ASSERT_EQ(dot(width, x.data(), of), sum) << width;
    }
  }
}

TEST(Interaction, GradientsOfDotsAreAddedInTheOrderOfTheRows) {
  for (const std::size_t width : {1, 37, 63, 64, 65, 128, 200}) {
    const auto x = reference::random_floats(width, 1);
    const auto table = reference::random_floats(3 * width, 2);
    // Each row is followed by a number that is not a row: the stride is 2.
    const std::vector<std::uint32_t> rows{2, 9, kNoRow, 9, 0, 9, 2, 9};
    const std::vector<float> slopes{0.3F, 5, -0.7F, 1e-3F};
    std::vector<float> x_gradient(width, 0.1F);
    std::vector<float> table_gradient(table.size(), 0.2F);
    std::vector<float> expected_x = x_gradient;
    std::vector<float> expected_table = table_gradient;
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      const std::uint32_t row = rows[2 * i];
      if (row == kNoRow) continue;
      for (std::size_t c = 0; c < width; ++c) {
        expected_x[c] += slopes[i] * table[row * width + c];
        expected_table[row * width + c] += slopes[i] * x[c];
      }
    }
    dots_backward(width, x.data(), table.data(), slopes.size(), rows.data(), 2, slopes.data(),
                  x_gradient.data(), table_gradient.data());
    EXPECT_EQ(x_gradient, expected_x) << width;
    EXPECT_EQ(table_gradient, expected_table) << width;
  }
}

}  // namespace
}  // namespace paddle::kernels
