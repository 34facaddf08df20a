#include "engine/gpu/device_executor.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "engine/gpu/device_ops.h"
#include "engine/nn/makers.h"
#include "tests/unit/engine/gpu/device_run.h"
#include "tests/unit/engine/nn/random_network.h"
#include "tests/unit/engine/nn/template_networks.h"

namespace paddle::nn {
namespace {

constexpr std::uint64_t kNetworks = 100;
constexpr double kNear = 1e-5;

void expect_run_near(DeviceRun& run, const Batch& batch, Mode mode, std::uint64_t seed,
                     double relative = kNear) {
  const auto found = run.on_card(batch, mode, seed);
  ASSERT_TRUE(found) << found.error().message;
  const RunResults right = run.on_host(batch, mode, seed);
  expect_near(*found, right, relative);
}

// Batches of unlike sizes on one executor: what is left of an earlier one must not matter.
TEST(DeviceExecutor, Trap35And46EveryTypeOfLayerRunsOnBatchesOfUnlikeSize) {
  std::set<std::string> types;
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    TestNetwork test(random_layers(seed), kRandomSlots, seed);
    for (const config::LayerConfig& layer : test.layers) types.insert(layer.type);
    DeviceRun run(test, seed);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const Mode mode = i == 3 ? Mode::kTest : Mode::kTrain;
      expect_run_near(run, random_batch(10 * seed + i), mode, i);
    }
    if (testing::Test::HasFailure()) break;
  }
  for (const auto& maker : kLayerMakers) EXPECT_TRUE(types.contains(std::string(maker.name)));
}

TEST(DeviceExecutor, RunsEveryTemplate) {
  for (const TemplateNetwork& one : template_networks()) {
    SCOPED_TRACE(one.path);
    TestNetwork test(one.job.layers, one.slots);
    DeviceRun run(test);
    expect_run_near(run, one.batch, Mode::kTrain, 1);
    expect_run_near(run, one.batch, Mode::kTest, 2);
  }
}

TEST(DeviceExecutor, ReadsAndWritesParametersThatTheCardKeeps) {
  for (const TemplateNetwork& one : template_networks()) {
    SCOPED_TRACE(one.path);
    TestNetwork test(one.job.layers, one.slots);
    DeviceRun run(test);
    const auto sent = run.on_card(one.batch, Mode::kTrain, 1);
    const auto tested = run.on_card(one.batch, Mode::kTest, 2);
    ASSERT_TRUE(sent && tested);
    run.keep_on_card();
    const auto kept = run.on_card(one.batch, Mode::kTrain, 1);
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_TRUE(*kept == *sent);
    const auto tested_again = run.on_card(one.batch, Mode::kTest, 2);
    ASSERT_TRUE(tested_again);
    EXPECT_TRUE(*tested_again == *tested);
  }
}

// Layers without a product of matrices or a sum over the rows of a batch, but for the costs
// themselves.
std::vector<config::LayerConfig> exact_layers() {
  config::LayerConfig rows = embedding("rows", {"a", "weighted"}, 4, true, "table");
  config::LayerConfig mean = embedding("mean", {"words", "weighted_words"}, 4, true, "table");
  mean.pooling = "mean";
  config::LayerConfig kept = embedding("kept", {"weighted_words"}, 2, false);
  kept.pooling = "concat";
  kept.length = 4;
  config::LayerConfig squashed = layer("activation", "squashed", {"mean"});
  squashed.activation = "gelu";
  config::LayerConfig product = layer("multiply", "product", {"rows", "squashed", "kept"});
  config::LayerConfig pairs = layer("factorization_machine", "pairs", {"product"});
  pairs.size = 2;
  config::LayerConfig cosine = layer("cosine_similarity", "cosine", {"rows", "mean"});
  config::LayerConfig both = concat("both", {"pairs", "cosine", "dropped"});
  config::LayerConfig softmax = layer("activation", "softmax", {"sum"});
  softmax.activation = "softmax";
  config::LayerConfig sampled = layer("nce", "sampled", {"softmax"});
  sampled.label = "class";
  sampled.vocabulary = kTestVocabulary;
  sampled.negatives = 5;
  sampled.has_bias = true;
  config::LayerConfig clicks = layer("binary_cross_entropy", "clicks", {"cosine"});
  clicks.label = "click";
  return {rows,
          mean,
          kept,
          squashed,
          product,
          layer("add", "sum", {"product", "rows"}),
          pairs,
          cosine,
          dropout("dropped", "sum", 0.3F),
          both,
          softmax,
          sampled,
          clicks,
          [] {
            config::LayerConfig read = layer("negative_sampling", "read", {"both"});
            read.label = "class";
            read.vocabulary = kTestVocabulary;
            return read;
          }()};
}

TEST(DeviceExecutor, Trap41BitsAreTheHostsWhereNothingIsMultipliedOrSummedOverRows) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    DeviceRun run(test, seed);
    const Batch batch = random_batch(seed);
    RunResults found = *run.on_card(batch, Mode::kTrain, seed);
    const RunResults right = run.on_host(batch, Mode::kTrain, seed);
    EXPECT_NEAR(found.cost, right.cost, 1e-12 * right.cost);
    found.cost = right.cost;
    EXPECT_TRUE(found == right) << "batch " << seed;
  }
}

TEST(DeviceExecutor, AddsUpTheCostsOfManyExamples) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  DeviceRun run(test);
  const Batch batch = random_batch(1, 2 * kernels::device::kCostChunk + 1);
  const double right = run.on_host(batch, Mode::kTest, 1).cost;
  EXPECT_NEAR(run.on_card(batch, Mode::kTest, 1)->cost, right, 1e-12 * right);
}

// Ids of one slot of each kind are all equal, all unlike, padding, or there are none.
TEST(DeviceExecutor, Trap35And38BatchesMayHaveOneIdOrNone) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  DeviceRun run(test, 5);
  Batch batch = random_batch(4);
  const std::size_t examples = batch.size;
  for (const std::size_t slot : {6U, 8U, 9U, 10U}) {
    for (std::uint64_t& id : batch.slots[slot].ids) id = 3;
  }
  expect_run_near(run, batch, Mode::kTrain, 1);
  for (const std::size_t slot : {9U, 10U}) {
    batch.slots[slot] = {.offsets = std::vector<std::uint32_t>(examples + 1)};
  }
  expect_run_near(run, batch, Mode::kTrain, 1);
  expect_run_near(run, batch, Mode::kTest, 1);
  expect_run_near(run, random_batch(6), Mode::kTrain, 1);
}

TEST(DeviceExecutor, Trap38TwoRunsHaveTheSameBitsWhateverRunsFirst) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TestNetwork test(random_layers(seed), kRandomSlots, seed);
    DeviceRun late(test, test::kLate);
    DeviceRun mixed(test, 100 + seed);
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Batch batch = random_batch(seed + i);
      EXPECT_TRUE(*late.on_card(batch, Mode::kTrain, i) == *mixed.on_card(batch, Mode::kTrain, i))
          << "network " << seed << ", batch " << i;
    }
  }
}

// Sums in pieces, of a batch whose next one has fewer occurrences.
TEST(DeviceExecutor, RowsThatOccurInMostExamplesAreAddedUp) {
  config::LayerConfig pooled = embedding("pooled", {"b"}, 4, true);
  pooled.pooling = "sum";
  const config::LayerConfig rows = embedding("rows", {"a", "b"}, 3, true);
  TestNetwork test(
      {rows, pooled, fc("out", {"rows", "pooled"}, 3, "identity"), cost("cost", "out", "label")},
      kSlots);
  DeviceRun run(test);
  for (const std::size_t size : {1500U, 700U, 1500U, 1500U}) {
    Batch batch{size, std::vector<Slot>(3)};
    Rng rng(size);
    for (std::size_t i = 0; i < size; ++i) {
      batch.slots[0].ids.push_back(rng.below(4) == 0 ? rng.below(kTestVocabulary) : 2);
      batch.slots[1].ids.push_back(rng.below(4) == 0 ? rng.below(kTestVocabulary) : 5);
      batch.slots[2].ids.push_back(rng.below(3));
    }
    expect_run_near(run, batch, Mode::kTrain, 1);
  }
}

TEST(DeviceExecutor, Bfloat16IsNearFloat32) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    config::LayerConfig hidden = fc("hidden", {"x", "words"}, 273, "tanh");
    config::LayerConfig words = embedding("words_", {"words"}, 10, true);
    words.pooling = "sum";
    hidden.inputs = {"x", "words_"};
    const config::LayerConfig middle = fc("middle", {"hidden"}, 45, "sigmoid");
    const config::LayerConfig last = fc("last", {"middle"}, 2, "identity");
    TestNetwork test({words, hidden, middle, last, cost("cost", "last", "click")}, kRandomSlots,
                     seed);
    for (auto& values : test.values) {
      for (float& value : values) value *= 0.3F;
    }
    DeviceRun run(test, seed);
    for (int i = 0; i < 4; ++i) {  // a copy of a factor that is left of an earlier run is wrong
      const Batch batch = random_batch(seed + 50 + i / 3);
      const auto found = run.on_card(batch, Mode::kTrain, 1, kernels::Compute::kBfloat16);
      ASSERT_TRUE(found) << found.error().message;
      const RunResults right = run.on_host(batch, Mode::kTrain, 1);
      EXPECT_NE(found->outputs, right.outputs);
      expect_near(*found, right, 2e-2);
      for (auto& values : test.values) {
        for (float& value : values) value *= 0.9F;
      }
    }
  }
}

TEST(DeviceExecutor, ReplaysAGraphForEveryShapeOfABatch) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  DeviceRun run(test);
  const Batch batch = random_batch(1);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run.on_card(batch, Mode::kTrain, 1));
  const auto before = run.device().counts();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run.on_card(batch, Mode::kTrain, 2));
  const auto after = run.device().counts();
  EXPECT_EQ(after.kernels, before.kernels);
  EXPECT_EQ(after.products, before.products);
  EXPECT_EQ(after.replays, before.replays + 4);
  EXPECT_EQ(after.uploads, before.uploads + 4) << "inputs and parameters go up together";
}

// A library may refuse to choose a product's algorithm within a capture. The fake device does.
TEST(DeviceExecutor, Trap35AShapeIsCapturedAtItsSecondRun) {
  TestNetwork test({fc("out", {"x"}, 30, "relu"), fc("last", {"out"}, 3, "identity"),
                    cost("cost", "last", "class")},
                   kRandomSlots);
  DeviceRun run(test);
  const Batch batch = random_batch(1);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto before = run.device().counts();
    expect_run_near(run, batch, Mode::kTrain, i);
    const auto after = run.device().counts();
    EXPECT_EQ(after.replays - before.replays, i < Uploads::kArenas ? 0 : 1) << "run " << i;
    EXPECT_EQ(after.kernels > before.kernels, i < 2 * Uploads::kArenas) << "run " << i;
  }
}

// The graphs of the full batch stay, however many batches of other sizes come between.
TEST(DeviceExecutor, OfManyShapesTheOneThatRanLongestAgoIsForgotten) {
  TestNetwork test({fc("out", {"x"}, 3, "identity"), cost("cost", "out", "class")}, kRandomSlots);
  DeviceRun run(test);
  const Batch full = random_batch(1, 256);
  const auto run_full = [&] {
    const auto before = run.device().counts();
    for (std::size_t i = 0; i < Uploads::kArenas; ++i) {
      ASSERT_TRUE(run.on_card(full, Mode::kTrain, 1));
    }
    EXPECT_EQ(run.device().counts().kernels, before.kernels);
    EXPECT_EQ(run.device().counts().replays, before.replays + Uploads::kArenas);
  };
  for (std::size_t i = 0; i < 2 * Uploads::kArenas; ++i) {
    ASSERT_TRUE(run.on_card(full, Mode::kTrain, 1));
  }
  for (std::size_t size = 1; size <= 80; ++size) {
    for (std::size_t i = 0; i < Uploads::kArenas; ++i) {
      ASSERT_TRUE(run.on_card(random_batch(2, size), Mode::kTrain, 1));
    }
    run_full();
  }
}

TEST(DeviceExecutor, WithoutCapturesTheBitsAreTheSame) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  DeviceRun graphs(test);
  test::FakeDevice device({.captures = false});
  DeviceRun none(test, device);
  const Batch batch = random_batch(1);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const auto right = graphs.on_card(batch, Mode::kTrain, i);
    const auto found = none.on_card(batch, Mode::kTrain, i);
    ASSERT_TRUE(right && found);
    EXPECT_TRUE(*found == *right) << "run " << i;
  }
  EXPECT_EQ(device.counts().replays, 0U);
}

// Each batch is made ready while the one before is computed, in full or without values; now and
// then another one is, or a test comes before it.
TEST(DeviceExecutor, Trap35And37BatchesThatAreMadeReadyEarlyHaveTheBitsOfOthers) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    TestNetwork test(random_layers(seed), kRandomSlots, seed);
    DeviceRun plain(test, test::kLate);
    DeviceRun run(test, seed);
    if (seed % 2 == 1) run.keep_on_card();
    for (std::uint64_t i = 0; i < 8; ++i) {
      const Batch batch = random_batch(10 * seed + i);
      const Mode mode = i == 3 ? Mode::kTest : Mode::kTrain;
      const auto right = plain.on_card(batch, mode, i);
      run.meanwhile = [&] {
        const std::uint64_t next = i == 5 ? 100 : i + 1;
        run.stage(random_batch(10 * seed + next), next, (seed + i) % 3 != 0);
      };
      const auto found = run.on_card(batch, mode, i);
      ASSERT_TRUE(right && found);
      ASSERT_TRUE(*found == *right) << "network " << seed << ", batch " << i;
    }
  }
}

TEST(DeviceExecutor, TheNextBatchGoesUpWhileOneIsComputed) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  DeviceRun run(test);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const auto before = run.device().counts();
    run.meanwhile = [&] {
      EXPECT_EQ(run.device().counts().uploads, before.uploads + (i == 0 ? 1 : 0));
      run.stage(random_batch(1), i + 1, true);
      EXPECT_EQ(run.device().counts().uploads, before.uploads + (i == 0 ? 2 : 1));
    };
    ASSERT_TRUE(run.on_card(random_batch(1), Mode::kTrain, i));
  }
}

bool has_nan(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return std::isnan(value); });
}

// The relu of a card's library makes 0 of NaN, and so does the fake one's. The cost of a test shows
// the NaN, and in training the gradient of the weights does, which the update looks at.
TEST(DeviceExecutor, NoReluHidesANan) {
  for (const bool is_static : {false, true}) {
    config::LayerConfig hidden = fc("hidden", {"x"}, 40, "relu");
    hidden.weight.is_static = is_static;
    TestNetwork test({hidden, fc("out", {"hidden"}, 3, "identity"), cost("cost", "out", "class")},
                     kRandomSlots);
    DeviceRun run(test);
    Batch batch = random_batch(1);
    batch.slots[0].values[2] = std::nanf("");
    for (int i = 0; i < 5; ++i) {
      const auto tested = run.on_card(batch, Mode::kTest, 1);
      ASSERT_TRUE(tested);
      EXPECT_TRUE(std::isnan(tested->cost));
      const auto trained = run.on_card(batch, Mode::kTrain, 1);
      ASSERT_TRUE(trained);
      EXPECT_TRUE(has_nan(trained->gradients[0]));
      EXPECT_EQ(std::isnan(trained->cost), is_static) << "nothing looks at this gradient";
    }
  }
}

// A card may wait for a sum with other cards before it gives memory.
TEST(DeviceExecutor, ABatchMadeReadyEarlyTakesNoMemoryWhileOneIsComputed) {
  TestNetwork test(exact_layers(), kRandomSlots, 3);
  DeviceRun plain(test);
  DeviceRun run(test);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Batch next = random_batch(i + 1, std::size_t{3} << (i + 1));
    run.meanwhile = [&] {
      const auto before = run.device().counts();
      run.stage(next, i + 1, true);
      EXPECT_EQ(run.device().counts().allocations, before.allocations) << "batch " << i;
    };
    const Batch batch = random_batch(i, std::size_t{3} << i);
    const auto found = run.on_card(batch, Mode::kTrain, i);
    const auto right = plain.on_card(batch, Mode::kTrain, i);
    ASSERT_TRUE(found && right);
    EXPECT_TRUE(*found == *right) << "batch " << i;
  }
}

TEST(DeviceExecutor, NamesABadBatchAsTheHostDoesAndGoesOn) {
  TestNetwork test({embedding("e", {"a", "b"}, 2, false), fc("out", {"e"}, 3, "identity"),
                    cost("cost", "out", "label")},
                   kSlots);
  DeviceRun run(test);
  Batch bad = kFive;
  bad.slots[2].ids[4] = 3;
  const auto refused = run.on_card(bad, Mode::kTrain, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kData);
  EXPECT_NE(refused.error().message.find("label 3"), std::string::npos);
  EXPECT_EQ(refused.error().message.find("GPU"), std::string::npos);
  expect_run_near(run, kFive, Mode::kTrain, 1);
}

TEST(DeviceExecutor, NamesTheCardThatBreaks) {
  TestNetwork test({fc("out", {"x"}, 3, "identity"), cost("cost", "out", "class")}, kRandomSlots);
  DeviceRun run(test);
  const Batch batch = random_batch(1);
  expect_run_near(run, batch, Mode::kTrain, 1);
  run.device().fail_order(2);
  const auto broken = run.on_card(batch, Mode::kTrain, 1);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("0 (Fake)"), std::string::npos) << broken.error().message;
  EXPECT_FALSE(run.on_card(batch, Mode::kTrain, 1));
}

TEST(DeviceExecutor, ACardThatHangsHasFailed) {
  TestNetwork test({fc("out", {"x"}, 3, "identity"), cost("cost", "out", "class")}, kRandomSlots);
  const Plan plan = test.network.lower();
  test::FakeDevice device;
  const auto executor = *DeviceExecutor::make(plan, device, {}, std::chrono::milliseconds(20));
  device.hang_order(2);
  const Batch batch = random_batch(1);
  const Parameters parameters = test.views(batch, 1);
  const auto hung = executor->run({.batch = batch,
                                   .begin = 0,
                                   .end = batch.size,
                                   .parameters = parameters,
                                   .mode = Mode::kTest},
                                  {});
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, Errc::kFailed) << "no pserver that is lost";
  EXPECT_NE(hung.error().message.find("0 (Fake)"), std::string::npos) << hung.error().message;
}

void expect_refused(config::LayerConfig layer, const std::string& words) {
  std::vector<config::LayerConfig> layers;
  for (int i = 0; i < 17; ++i) {
    layers.push_back(fc("f" + std::to_string(i), {"x"}, 4, "identity"));
    layer.inputs.push_back(layers.back().name);
  }
  layers.push_back(layer);
  layers.push_back(fc("out", {"wide"}, 3, "identity"));
  layers.push_back(cost("cost", "out", "class"));
  TestNetwork test(layers, kRandomSlots);
  test::FakeDevice device;
  const Plan plan = test.network.lower();
  const auto refused = DeviceExecutor::make(plan, device, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
}

TEST(DeviceExecutor, Trap46ALayerOfTooManyInputsIsRefusedBeforeTheFirstStep) {
  expect_refused(layer("add", "wide", {}), "add has 17 inputs");
  expect_refused(layer("multiply", "wide", {}), "multiply has 17 inputs");
  config::LayerConfig pairs = layer("factorization_machine", "wide", {});
  pairs.size = 2;
  expect_refused(pairs, "factorization_machine has 17 inputs");
}

}  // namespace
}  // namespace paddle::nn
