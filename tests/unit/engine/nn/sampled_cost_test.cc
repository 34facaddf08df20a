// Negative sampling and NCE: the distribution of the draws, the gradients, and learning.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/nn/sampler.h"
#include "tests/unit/engine/nn/gradient.h"

namespace paddle::nn {
namespace {

constexpr std::uint64_t kDraws = 200000;

std::vector<double> shares(const Sampler& sampler, std::size_t classes) {
  std::vector<double> found(classes, 0);
  Rng rng(9);
  for (std::uint64_t i = 0; i < kDraws; ++i) found[sampler.draw(rng.next())] += 1.0 / kDraws;
  return found;
}

TEST(Sampler, DrawsTheCountsToThePowerOfThreeQuarters) {
  const std::vector<std::uint64_t> counts{1000, 1, 50, 0, 300, 7};
  const Sampler sampler = Sampler::unigram(counts);
  double sum = 0;
  for (const std::uint64_t count : counts) {
    sum += std::pow(std::max(1.0, static_cast<double>(count)), 0.75);
  }
  const std::vector<double> found = shares(sampler, counts.size());
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const double exact = std::pow(std::max(1.0, static_cast<double>(counts[c])), 0.75) / sum;
    EXPECT_NEAR(sampler.probability(c), exact, 1e-12);
    EXPECT_NEAR(found[c], exact, 5 * std::sqrt(exact / kDraws)) << c;
  }
}

TEST(Sampler, UniformDrawsAllAlike) {
  const Sampler sampler = Sampler::uniform(7);
  EXPECT_DOUBLE_EQ(sampler.probability(3), 1.0 / 7);
  for (const double share : shares(sampler, 7)) EXPECT_NEAR(share, 1.0 / 7, 5e-3);
  EXPECT_EQ(Sampler::uniform(1).draw(~std::uint64_t{0}), 0U);
}

config::LayerConfig sampled(std::string type, std::string input, std::uint32_t negatives) {
  auto made = layer(std::move(type), "cost", {std::move(input)});
  made.label = "next";
  made.vocabulary = kTestVocabulary;
  made.negatives = negatives;
  return made;
}

Batch six_pairs() {
  return {6, {{{0, 3, 3, 6, 1, 2}}, {{1, 0, 2, 2, 6, 5}}}};
}

class SampledCost : public testing::TestWithParam<const char*> {};

TEST_P(SampledCost, GradientOfInputWeightsAndBiases) {
  for (const bool unigram : {false, true}) {
    auto cost = sampled(GetParam(), "x", 4);
    if (unigram) {
      cost.distribution = "unigram";
      cost.counts = {5, 1, 900, 3, 40, 0, 12};
    }
    for (const bool bias : {false, true}) {
      cost.has_bias = bias;
      TestNetwork test({embedding("e", {"word"}, 3, true), fc("x", {"e"}, 4, "tanh"), cost},
                       {"word", "next"});
      expect_right_gradient(test, six_pairs());
      EXPECT_EQ(test.network.parameters().size(), bias ? 5U : 4U);
      EXPECT_TRUE(test.network.parameters()[3].sparse());
    }
  }
}

TEST_P(SampledCost, ATableSharedWithItsOwnInput) {
  auto cost = sampled(GetParam(), "e", 3);
  cost.has_bias = false;
  cost.weight.name = "_cost.w0";
  TestNetwork test({embedding("e", {"word"}, 3, true, "_cost.w0"), cost}, {"word", "next"});
  ASSERT_EQ(test.network.parameters().size(), 1U);
  expect_right_gradient(test, six_pairs());
}

TEST_P(SampledCost, DrawsByTheSeedAndTheExampleNotByTheSplit) {
  const auto cost = sampled(GetParam(), "e", 3);
  TestNetwork test({embedding("e", {"word"}, 3, true), cost}, {"word", "next"});
  const double whole = test.run(six_pairs(), 1, 8);
  const auto gradients = test.gradients;
  EXPECT_NEAR(test.run(six_pairs(), 4, 8), whole, 1e-9);
  for (std::size_t i = 0; i < gradients[1].size(); ++i) {
    EXPECT_NEAR(test.gradients[1][i], gradients[1][i], 1e-5);
  }
  EXPECT_NE(test.run(six_pairs(), 1, 9), whole);
}

TEST_P(SampledCost, OnlyLabelsAndDrawsAreAskedFor) {
  auto cost = sampled(GetParam(), "e", 2);
  cost.vocabulary = 1000000;
  const auto network =
      Network::build({embedding("e", {"word"}, 3, true), cost}, parse_slots({"word", "next"}));
  ASSERT_TRUE(network);
  std::vector<std::vector<std::uint64_t>> ids(3);
  network->collect_ids(six_pairs(), 4, ids);
  EXPECT_GT(ids[1].size(), 12U);
  EXPECT_LE(ids[1].size(), 5U + 2 * 6);
  EXPECT_EQ(ids[1], ids[2]);
  EXPECT_TRUE(std::ranges::binary_search(ids[1], 5U));
  EXPECT_GT(ids[1].back(), 100000U);
}

TEST_P(SampledCost, TenNegativesByDefaultAndNoRowForAWrongLabel) {
  auto cost = sampled(GetParam(), "e", 0);
  cost.vocabulary = 1000000;
  const auto network =
      Network::build({embedding("e", {"word"}, 3, true), cost}, parse_slots({"word", "next"}));
  ASSERT_TRUE(network);
  std::vector<std::vector<std::uint64_t>> ids(3);
  network->collect_ids({1, {{{0}}, {{1000000}}}}, 4, ids);
  EXPECT_EQ(ids[1].size(), 10U);  // drawn from a million, all different
  EXPECT_LT(ids[1].back(), 1000000U);
}

TEST_P(SampledCost, AWrongLabelIsNamed) {
  TestNetwork test({embedding("e", {"word"}, 3, true), sampled(GetParam(), "e", 2)},
                   {"word", "next"});
  const auto result = test.test({1, {{{0}}, {{7}}}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "layer 'cost': label 7 in slot 'next' is not below the 7 classes");
}

INSTANTIATE_TEST_SUITE_P(Both, SampledCost, testing::Values("nce", "negative_sampling"));

// The labels do not depend on the input, so the scores become the logarithm of their distribution.
TEST(SampledCost, NceLearnsLogProbabilities) {
  const std::vector<double> truth{0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02};
  auto cost = sampled("nce", "e", 8);
  cost.distribution = "unigram";
  cost.counts = {3, 3, 3, 1, 1, 1, 1};
  TestNetwork test({embedding("e", {"word"}, 1, true), cost}, {"word", "next"});
  test.values[0].assign(7, 0.0F);  // only the bias can learn
  Rng rng(4);
  for (std::uint64_t step = 0; step < 3000; ++step) {
    Batch batch{64, {{std::vector<std::uint64_t>(64, 0)}, {}}};
    for (std::size_t i = 0; i < 64; ++i) {
      double left = rng.uniform();
      std::uint64_t label = 0;
      while (label < 6 && left >= truth[label]) left -= truth[label++];
      batch.slots[1].ids.push_back(label);
    }
    test.run(batch, 1, step);
    test.step((step < 2000 ? 0.2F : 0.02F) / 64);
    test.values[0].assign(7, 0.0F);
  }
  for (std::size_t c = 0; c < 7; ++c) {
    EXPECT_NEAR(std::exp(static_cast<double>(test.values[2][c])), truth[c], 0.02) << c;
  }
}

}  // namespace
}  // namespace paddle::nn
