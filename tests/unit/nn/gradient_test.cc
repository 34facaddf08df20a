// Every layer's gradient against finite differences of a double-precision network.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/nn/reference_network.h"

namespace paddle::nn {
namespace {

constexpr std::uint64_t kSeed = 5;

void expect_right_gradient(TestNetwork& test, const Batch& batch) {
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
      ASSERT_NEAR(test.gradients[p][i], slope, 2e-5 * (1 + std::fabs(slope)))
          << test.network.parameters()[p].name() << "[" << i << "]";
    }
    EXPECT_GT(largest, 1e-3) << test.network.parameters()[p].name() << " has no influence";
  }
}

Batch five_examples() {
  return {5, {{{0, 3, 3, 6, 1}, {}}, {{2, 3, 0, 6, 5}, {}}, {{1, 0, 2, 2, 1}, {}}}};
}
const std::vector<std::string> kSlots{"a", "b", "label"};

class ActivationGradient : public testing::TestWithParam<const char*> {};
TEST_P(ActivationGradient, FcWithSeveralInputs) {
  TestNetwork test({embedding("ea", {"a"}, 3, false), embedding("eb", {"b"}, 2, true),
                    fc("hidden", {"ea", "eb"}, 4, GetParam()), fc("out", {"hidden"}, 3, "identity"),
                    cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, five_examples());
}
INSTANTIATE_TEST_SUITE_P(All, ActivationGradient,
                         testing::Values("identity", "sigmoid", "relu", "tanh"));

TEST(Gradient, SharedSparseTableConcatAndDropout) {
  TestNetwork test({embedding("ea", {"a"}, 3, true, "words"),
                    embedding("eb", {"b"}, 3, true, "words"), concat("both", {"ea", "eb"}),
                    fc("hidden", {"both"}, 8, "tanh"), dropout("dropped", "hidden", 0.4F),
                    fc("out", {"dropped"}, 3, "identity"), cost("cost", "out", "label")},
                   kSlots);
  ASSERT_EQ(test.network.parameters()[0].name(), "words");
  expect_right_gradient(test, five_examples());
}

TEST(Gradient, OneTableForSeveralSlotsOfOneLayer) {
  TestNetwork test({embedding("e", {"a", "b"}, 3, true), fc("out", {"e"}, 3, "identity"),
                    cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, five_examples());
}

TEST(Gradient, SharedWeightOfTwoFcLayers) {
  auto first = fc("first", {"e"}, 4, "tanh");
  auto second = fc("second", {"first"}, 4, "tanh");
  first.weight.name = second.weight.name = "square";
  second.has_bias = false;
  TestNetwork test({embedding("e", {"a"}, 4, true), first, second,
                    fc("out", {"second"}, 3, "identity"), cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, five_examples());
}

TEST(Gradient, ALayerWithSeveralReadersAndTwoCosts) {
  TestNetwork test(
      {embedding("e", {"a"}, 3, false), fc("x", {"e"}, 3, "tanh"), dropout("d", "x", 0.3F),
       concat("c", {"x", "d", "x"}), fc("out", {"c", "x"}, 3, "identity"),
       cost("one", "x", "label"), cost("two", "out", "label"), cost("three", "out", "label")},
      kSlots);
  expect_right_gradient(test, five_examples());
}

TEST(Gradient, FloatSlotsNextToLayers) {
  TestNetwork test({embedding("e", {"a"}, 3, true), fc("hidden", {"price", "e"}, 4, "tanh"),
                    concat("c", {"hidden", "age", "price"}), fc("out", {"c"}, 3, "identity"),
                    cost("cost", "out", "label")},
                   {"a", "price:2", "label", "age:1"});
  expect_right_gradient(test, {3,
                               {{{0, 3, 3}},
                                {{}, {}, {}, {0.5F, -1, 2, 0.25F, -0.5F, 1}},
                                {{1, 0, 2}},
                                {{}, {}, {}, {1, -2, 0.5F}}}});
}

class PoolingGradient : public testing::TestWithParam<const char*> {};
TEST_P(PoolingGradient, RaggedSlotWithAnEmptyBag) {
  for (const bool sparse : {false, true}) {
    auto bag = embedding("bag", {"words"}, 3, sparse);
    bag.pooling = GetParam();
    TestNetwork test({bag, cost("cost", "bag", "label")}, {"words", "label"});
    expect_right_gradient(test, {4, {{{1, 2, 2, 6, 0, 5}, {0, 3, 3, 4, 6}}, {{0, 1, 2, 1}, {}}}});
  }
}
INSTANTIATE_TEST_SUITE_P(All, PoolingGradient, testing::Values("sum", "mean"));

}  // namespace
}  // namespace paddle::nn
