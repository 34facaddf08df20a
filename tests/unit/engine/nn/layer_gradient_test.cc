// Gradients of the layers and costs between an embedding and its labels (gradient.h).
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/engine/nn/gradient.h"

namespace paddle::nn {
namespace {

// Two embeddings of one width, the layer, and a cost behind it.
TestNetwork between(const config::LayerConfig& middle) {
  return TestNetwork({embedding("ea", {"a"}, 4, true), embedding("eb", {"b"}, 4, false), middle,
                      fc("out", {middle.name, "ea"}, 3, "identity"), cost("cost", "out", "label")},
                     kSlots);
}

TEST(LayerGradient, AddAndMultiply) {
  for (const char* type : {"add", "multiply"}) {
    for (const std::vector<std::string>& inputs :
         {std::vector<std::string>{"ea", "eb"}, {"ea", "eb", "ea"}}) {
      TestNetwork test = between(layer(type, "m", inputs));
      expect_right_gradient(test, kFive);
    }
  }
}

TEST(LayerGradient, MultiplyByZeros) {
  TestNetwork test = between(layer("multiply", "m", {"ea", "eb"}));
  std::fill_n(test.values[1].begin(), 4, 0.0F);  // row 0 of the dense table
  expect_right_gradient(test, kFive);
}

TEST(LayerGradient, LayerNorm) {
  auto norm = layer("layer_norm", "n", {"ea"});
  for (const float epsilon : {0.0F, 0.1F}) {
    norm.epsilon = epsilon;
    TestNetwork test({embedding("ea", {"a"}, 4, true), norm, fc("out", {"n", "ea"}, 3, "tanh"),
                      cost("cost", "out", "label")},
                     kSlots);
    expect_right_gradient(test, kFive);
  }
}

TEST(LayerGradient, LayerNormStartsAsTheIdentityOfWhatItNormalises) {
  auto norm = layer("layer_norm", "n", {"ea"});
  TestNetwork test({embedding("ea", {"a"}, 4, true), norm, cost("cost", "n", "label")}, kSlots);
  const auto& parameters = test.network.parameters();
  EXPECT_EQ(parameters[1].name(), "_n.w0");
  EXPECT_EQ(parameters[1].initial_mean(), 1.0F);
  EXPECT_EQ(parameters[1].initial_std(), 0.0F);
  EXPECT_EQ(parameters[2].initial_mean(), 0.0F);
}

TEST(LayerGradient, FactorizationMachineOverFieldsOfSeveralLayers) {
  auto machine = layer("factorization_machine", "fm", {"e", "dense"});
  machine.size = 3;
  auto click = labelled("binary_cross_entropy", "cost", "fm", "label");
  click.label = "click";
  TestNetwork test(
      {embedding("e", {"a", "b"}, 3, true), fc("dense", {"price"}, 3, "identity"), machine, click},
      {"a", "b", "price:2", "click"});
  expect_right_gradient(
      test, {3, {{{0, 3, 3}}, {{3, 3, 1}}, {{}, {}, {}, {1, 2, -1, 0.5F, 0, 1}}, {{1, 0, 1}}}});
}

TEST(LayerGradient, FactorizationMachineOverFactorsThatOthersRead) {
  auto machine = layer("factorization_machine", "fm", {"e"});
  machine.size = 3;
  TestNetwork test({embedding("e", {"a", "b"}, 3, true), machine,
                    fc("out", {"fm", "e"}, 3, "identity"), cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, kFive);
}

TEST(LayerGradient, CosineSimilarityAlsoOfAVectorWithItself) {
  auto cosine = layer("cosine_similarity", "c", {"ea", "eb"});
  cosine.scale = 5;
  TestNetwork test = between(cosine);
  expect_right_gradient(test, kFive);
  cosine.inputs = {"ea", "ea"};
  TestNetwork same(
      {embedding("ea", {"a"}, 4, true), cosine, labelled("squared_error", "cost", "c", "label")},
      {"a", "label"});
  EXPECT_NEAR(same.run({1, {{{2}}, {{3}}}}), 4.0, 1e-5);
  for (const float slope : same.gradients[0]) EXPECT_NEAR(slope, 0, 1e-5);
}

TEST(LayerGradient, CosineOfAnEmptyBagIsZeroAndHasNoSlope) {
  auto bag = embedding("bag", {"words"}, 3, true);
  bag.pooling = "sum";
  auto rating = labelled("squared_error", "cost", "c", "label");
  TestNetwork test(
      {bag, embedding("e", {"a"}, 3, true), layer("cosine_similarity", "c", {"bag", "e"}), rating},
      {"words", "a", "label"});
  const Batch batch{2, {{{1, 2}, {0, 2, 2}}, {{4, 5}}, {{1, 3}}}};
  const double cost_sum = test.run(batch);
  EXPECT_TRUE(std::isfinite(cost_sum));
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(test.gradients[1][5 * 3 + c], 0.0F);
  EXPECT_NEAR(test.run({1, {{{}, {0, 0}}, {{5}}, {{3}}}}), 9.0, 1e-6);
}

TEST(LayerGradient, SquaredErrorOfARatingAndOfFloats) {
  TestNetwork rating({embedding("e", {"a", "b"}, 3, true), fc("out", {"e"}, 1, "identity"),
                      labelled("squared_error", "cost", "out", "label")},
                     kSlots);
  expect_right_gradient(rating, kFive);
  TestNetwork floats({embedding("e", {"a"}, 3, true), fc("out", {"e"}, 2, "tanh"),
                      labelled("squared_error", "cost", "out", "label"),
                      labelled("squared_error", "more", "out", "label")},
                     {"a", "label:2"});
  expect_right_gradient(floats, {2, {{{4, 4}}, {{}, {}, {}, {0.5F, -1, 2, 0}}}});
}

TEST(LayerGradient, BinaryCrossEntropyOfOneAndOfManyLabels) {
  TestNetwork click({embedding("e", {"a"}, 3, true), fc("out", {"e"}, 1, "identity"),
                     labelled("binary_cross_entropy", "cost", "out", "label")},
                    {"a", "label"});
  expect_right_gradient(click, {4, {{{0, 1, 1, 5}}, {{0, 1, 0, 1}}}});
  const std::vector<config::LayerConfig> many{
      embedding("e", {"a"}, 3, true), fc("out", {"e"}, 4, "identity"),
      labelled("binary_cross_entropy", "cost", "out", "label")};
  TestNetwork tags(many, {"a", "label"});
  expect_right_gradient(tags, {3, {{{0, 1, 1}}, {{0, 3, 2, 2}, {0, 2, 2, 4}}}});
  TestNetwork floats(many, {"a", "label:4"});
  expect_right_gradient(floats, {2, {{{0, 1}}, {{}, {}, {}, {0, 1, 1, 0, 0, 0, 0, 1}}}});
}

TEST(LayerGradient, CostsSurviveHugeLogits) {
  TestNetwork click(
      {embedding("e", {"a"}, 1, true), labelled("binary_cross_entropy", "cost", "e", "label")},
      {"a", "label"});
  click.values[0] = {1e30F, -1e30F, 0, 0, 0, 0, 0};
  EXPECT_EQ(click.run({2, {{{0, 1}}, {{1, 0}}}}), 0.0);
  EXPECT_NEAR(click.run({1, {{{0}}, {{0}}}}) / 1e30, 1.0, 1e-6);
  EXPECT_NEAR(click.gradients[0][0], 1.0, 1e-6);
}

TEST(LayerGradient, WrongLabelsAreNamed) {
  TestNetwork one(
      {embedding("e", {"a"}, 1, true), labelled("binary_cross_entropy", "cost", "e", "label")},
      {"a", "label"});
  expect_data_error(one, {1, {{{0}}, {{2}}}},
                    "layer 'cost': label 2 in slot 'label' is neither 0 nor 1");
  expect_data_error(one, {1, {{{0}}, {{}, {0, 0}}}},
                    "layer 'cost': an example has 0 labels in slot 'label'");
  TestNetwork many(
      {embedding("e", {"a"}, 2, true), labelled("binary_cross_entropy", "cost", "e", "label")},
      {"a", "label"});
  expect_data_error(many, {1, {{{0}}, {{1, 2}, {0, 2}}}},
                    "layer 'cost': label 2 in slot 'label' is not below the 2 outputs");
  TestNetwork floats(
      {embedding("e", {"a"}, 1, true), labelled("binary_cross_entropy", "cost", "e", "label")},
      {"a", "label:1"});
  expect_data_error(floats, {1, {{{0}}, {{}, {}, {}, {0.5F}}}},
                    "layer 'cost': label 0.5 in slot 'label' is neither 0 nor 1");
}

}  // namespace
}  // namespace paddle::nn
