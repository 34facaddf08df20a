// Gradients of embeddings and of the layers behind them (gradient.h).
#include "tests/unit/engine/nn/gradient.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace paddle::nn {
namespace {

Batch five_examples() {
  return {5, {{{0, 3, 3, 6, 1}, {}}, {{2, 3, 0, 6, 5}, {}}, {{1, 0, 2, 2, 1}, {}}}};
}

Batch three_examples_with_floats() {
  return {3,
          {{{0, 3, 3}},
           {{}, {}, {}, {0.5F, -1, 2, 0.25F, -0.5F, 1}},
           {{1, 0, 2}},
           {{}, {}, {}, {1, -2, 0.5F}}}};
}
const std::vector<std::string> kFloatSlots{"a", "price:2", "label", "age:1"};

class ActivationGradient : public testing::TestWithParam<const char*> {};
TEST_P(ActivationGradient, FcWithSeveralInputs) {
  TestNetwork test({embedding("ea", {"a"}, 3, false), embedding("eb", {"b"}, 2, true),
                    fc("hidden", {"ea", "eb"}, 4, GetParam()), fc("out", {"hidden"}, 3, "identity"),
                    cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, five_examples());
}
INSTANTIATE_TEST_SUITE_P(All, ActivationGradient,
                         testing::Values("identity", "sigmoid", "relu", "tanh", "softmax", "gelu"));

TEST_P(ActivationGradient, ALayerOfItsOwn) {
  auto function = layer("activation", "f", {"x"});
  function.activation = GetParam();
  TestNetwork test({embedding("e", {"a"}, 3, true), fc("x", {"e"}, 4, "identity"), function,
                    fc("out", {"f", "x"}, 3, "identity"), cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, five_examples());
}

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
                   kFloatSlots);
  expect_right_gradient(test, three_examples_with_floats());
}

// Nothing reads the gradient of the floats, so concat passes on only the columns before the last.
TEST(Gradient, FloatSlotsAroundLayersInConcatsOfConcats) {
  TestNetwork test({embedding("e", {"a"}, 3, true), concat("floats", {"age", "price"}),
                    concat("in", {"age", "e", "price"}), concat("c", {"floats", "in", "age"}),
                    fc("x", {"c", "floats"}, 6, "tanh"), layer("add", "sum", {"in", "x"}),
                    fc("out", {"in", "sum"}, 3, "identity"), cost("cost", "out", "label")},
                   kFloatSlots);
  expect_right_gradient(test, three_examples_with_floats());
}

class PoolingGradient : public testing::TestWithParam<const char*> {};
TEST_P(PoolingGradient, RaggedSlotWithAnEmptyBag) {
  for (const bool sparse : {false, true}) {
    auto bag = embedding("bag", {"words"}, 3, sparse);
    bag.pooling = GetParam();
    if (bag.pooling == "concat") bag.length = 2;
    for (const bool padded : {false, true}) {
      if (padded) bag.padding_id = 2;
      TestNetwork test({bag, fc("out", {"bag"}, 3, "identity"), cost("cost", "out", "label")},
                       {"words", "label"});
      Batch batch{4, {{{1, 2, 2, 6, 0, 5}, {0, 3, 3, 4, 6}}, {{0, 1, 2, 1}, {}}}};
      expect_right_gradient(test, batch);
      batch.slots[0].weights = {0.5F, 2, -1, 3, 0.25F, 1};
      expect_right_gradient(test, batch);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, PoolingGradient, testing::Values("sum", "mean", "concat"));

TEST(Gradient, WeightsAndPaddingOfOneIdAnExample) {
  auto e = embedding("e", {"a", "b"}, 3, true);
  e.padding_id = 3;
  TestNetwork test({e, fc("out", {"e"}, 3, "identity"), cost("cost", "out", "label")}, kSlots);
  Batch batch = five_examples();
  expect_right_gradient(test, batch);
  EXPECT_EQ(std::ranges::count(test.ids[0], 3U), 0);  // padding has no row
  batch.slots[1].weights = {1, 2, -3, 0.5F, 1};
  expect_right_gradient(test, batch);
}

}  // namespace
}  // namespace paddle::nn
