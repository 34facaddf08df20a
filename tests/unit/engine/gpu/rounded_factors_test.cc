#include "engine/gpu/rounded_factors.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

// Forward reads inputs and weights; backward reads inputs and gradients, then gradients and weights
// again. The first layer's inputs are data, which have no gradient.
TEST(RoundedFactors, AMatrixThatSeveralProductsReadIsRoundedOnce) {
  const TestNetwork test({fc("first", {"x"}, 16, "relu"), fc("second", {"first"}, 16, "tanh"),
                          fc("third", {"second"}, 5, "identity"), cost("cost", "third", "label")},
                         {"x:9", "label"});
  const Plan plan = test.network.lower();
  const RoundedFactors factors(plan);
  std::size_t written = 0;
  std::size_t reused = 0;
  for (const auto* ops : {&plan.forward, &plan.backward}) {
    for (const Op& op : *ops) {
      const auto* gemm = std::get_if<op::Gemm>(&op);
      if (gemm == nullptr) continue;
      for (const auto& factor : {factors.of(*gemm).a, factors.of(*gemm).b}) {
        (factor.is_written ? reused : written) += 1;
      }
    }
  }
  EXPECT_EQ(factors.copies().size(), 9U);
  EXPECT_EQ(written, 9U);
  EXPECT_EQ(reused, 7U);
}

TEST(RoundedFactors, AMatrixIsRoundedAgainAfterAnOpHasChangedIt) {
  Plan plan;
  const Region x{.buffer = 0, .column = 0, .stride = 8};
  const Region w{.buffer = 1, .column = 0, .stride = 5};
  const op::Gemm product{.m = op::kRows, .n = 5, .k = 8, .a = x, .b = w, .c = {.buffer = 2}};
  plan.forward = {product, op::Activate{.width = 8, .from = x, .to = x}, product};
  const RoundedFactors factors(plan);
  const auto& again = factors.of(std::get<op::Gemm>(plan.forward[2]));
  EXPECT_EQ(factors.copies().size(), 2U);
  EXPECT_FALSE(again.a.is_written);
  EXPECT_TRUE(again.b.is_written);
}

// A product sums over the rows of a factor that is not flipped on the right, or flipped on the
// left.
TEST(RoundedFactors, RowsThatAProductSumsOverArePadded) {
  Plan plan;
  const Region x{.buffer = 0, .column = 0, .stride = 9};
  const Region dy{.buffer = 1, .column = 0, .stride = 5};
  plan.forward = {op::Gemm{.transpose_a = kernels::Transpose::kYes,
                           .m = 9,
                           .n = 5,
                           .k = op::kRows,
                           .a = x,
                           .b = dy,
                           .c = {.buffer = 2}}};
  const RoundedFactors factors(plan);
  ASSERT_EQ(factors.copies().size(), 2U);
  EXPECT_EQ(factors.copies()[0].size(3), 8U * 16);
  EXPECT_EQ(factors.copies()[1].size(3), 8U * 8);
}

}  // namespace
}  // namespace paddle::nn
