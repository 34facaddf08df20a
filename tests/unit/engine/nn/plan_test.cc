#include "engine/nn/plan.h"

#include <set>

#include <gtest/gtest.h>

#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"
#include "tests/support/device/host_interpreter.h"
#include "tests/unit/engine/math/use_bfloat16.h"
#include "tests/unit/engine/nn/equal_plan.h"
#include "tests/unit/engine/nn/random_network.h"

namespace paddle::nn {
namespace {

constexpr std::uint64_t kNetworks = 300;

// Some values are -0, which a sum with 0 would change.
TestNetwork random_network(std::uint64_t seed) {
  TestNetwork test(random_layers(seed), kRandomSlots, seed);
  for (auto& value : test.values) {
    for (std::size_t i = seed % 7; i < value.size(); i += 7) value[i] = -0.0F;
  }
  return test;
}

TEST(Plan, EqualsTheLayersInRandomNetworks) {
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    TestNetwork test = random_network(seed);
    expect_equal_plan(test, random_batch(seed), seed);
    if (HasFailure()) FAIL() << "in the network of seed " << seed;
  }
}

TEST(Plan, EqualsTheLayersInBfloat16) {
  if (!kernels::use_bfloat16()) GTEST_SKIP() << "the CPU has no AVX512-BF16";
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    TestNetwork test = random_network(seed);
    test.compute = kernels::Compute::kBfloat16;
    expect_equal_plan(test, random_batch(seed), seed);
    if (HasFailure()) FAIL() << "in the network of seed " << seed;
  }
}

TEST(Plan, IsTriedWithEveryTypeOfLayer) {
  std::set<std::string> types;
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    for (const config::LayerConfig& layer : random_layers(seed)) types.insert(layer.type);
  }
  for (const auto& maker : kLayerMakers) EXPECT_TRUE(types.contains(std::string(maker.name)));
}

// Fills the inputs with the wrong batch and compares the message with that of the layers.
void expect_same_error(TestNetwork& test, const Batch& batch, const std::string& words) {
  const Plan plan = test.network.lower();
  HostInterpreter host(plan);
  const Parameters parameters = test.views(batch, 1);
  const nn::Run run{.batch = batch, .begin = 0, .end = batch.size, .parameters = parameters};
  const auto right = test.network.forward(run, test.workspace);
  const auto result = host.forward(run);
  ASSERT_FALSE(right);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kData);
  EXPECT_EQ(result.error().message, right.error().message);
  EXPECT_EQ(result.error().hint, right.error().hint);
  EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
}

TEST(Plan, NamesIdsAndLabelsOutOfRangeAsTheLayersDo) {
  TestNetwork test({embedding("e", {"a", "b"}, 2, false), fc("out", {"e"}, 3, "identity"),
                    cost("cost", "out", "label")},
                   kSlots);
  Batch batch = kFive;
  batch.slots[2].ids[4] = 3;
  expect_same_error(test, batch, "label 3");
  batch.slots[1].ids[1] = 70;
  expect_same_error(test, batch, "id 70");
  batch.slots[0].offsets = {0, 1, 2, 2, 4, 5};
  expect_same_error(test, batch, "varying number");
}

TEST(Plan, OfANetworkForPredictionsIsItsForward) {
  const std::vector<config::LayerConfig> layers{
      embedding("e", {"a", "b"}, 2, false), fc("out", {"e"}, 3, "softmax"),
      fc("logits", {"out"}, 3, "identity"), cost("cost", "logits", "label")};
  TestNetwork test(layers, kSlots);
  const Network network = *Network::build(layers, parse_slots(kSlots), {}, "out");
  const Plan plan = network.lower();
  EXPECT_TRUE(plan.backward.empty());
  EXPECT_TRUE(plan.costs.empty());
  HostInterpreter host(plan);
  const Parameters parameters = test.views(kFive, 1);
  const nn::Run run{
      .batch = kFive, .begin = 0, .end = 5, .parameters = parameters, .mode = Mode::kTest};
  ASSERT_TRUE(host.forward(run));
  ASSERT_TRUE(network.forward(run, test.workspace));
  const std::span<const float> right = network.output(test.workspace);
  const float* const outputs = host.output(1);
  EXPECT_EQ(std::vector(outputs, outputs + 15), std::vector(right.begin(), right.end()));
}

}  // namespace
}  // namespace paddle::nn
