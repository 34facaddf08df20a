#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/nn/builder.h"
#include "tests/unit/engine/math/use_bfloat16.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

TestNetwork ngram(std::uint64_t seed = 1) {
  return TestNetwork(
      {embedding("e0", {"w0"}, 4, true, "_proj"), embedding("e1", {"w1"}, 4, true, "_proj"),
       concat("context", {"e0", "e1"}), fc("hidden", {"context"}, 16, "sigmoid"),
       fc("out", {"hidden"}, kTestVocabulary, "identity"), cost("cost", "out", "next")},
      {"w0", "w1", "next"}, seed);
}

// Text whose next word is a function of the two before it.
Batch toy_text(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  Batch batch{size, {{}, {}, {}}};
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t a = rng.below(kTestVocabulary);
    const std::uint64_t b = rng.below(kTestVocabulary);
    batch.slots[0].ids.push_back(a);
    batch.slots[1].ids.push_back(b);
    batch.slots[2].ids.push_back((2 * a + b) % kTestVocabulary);
  }
  return batch;
}

// An example with weight 2 has the gradient of two such examples, and one with weight 0 has none.
TEST(Network, WeightsCountExamples) {
  struct Kind {
    std::string cost, label;
    Slot labels, counted;
  };
  const Kind kinds[] = {
      {"softmax_cross_entropy", "y", {.ids = {2, 0, 1}}, {.ids = {2, 0, 0}}},
      {"binary_cross_entropy",
       "y:3",
       {.values = {0, 1, 1, 1, 0, 0, 1, 1, 1}},
       {.values = {0, 1, 1, 1, 0, 0, 1, 0, 0}}},
      {"squared_error",
       "y:3",
       {.values = {.5, 1, 2, -1, 0, 3, 9, 9, 9}},
       {.values = {.5, 1, 2, -1, 0, 3, -1, 0, 3}}},
  };
  const Slot inputs{.values = {1, -2, .5, 3, 8, 8}};
  const Slot counted_inputs{.values = {1, -2, .5, 3, .5, 3}};
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.cost);
    const std::vector<config::LayerConfig> layers{fc("out", {"x"}, 3, ""),
                                                  labelled(kind.cost, "cost", "out")};
    TestNetwork weighted(layers, {"x:2", kind.label, "weight:1"});
    TestNetwork plain(layers, {"x:2", kind.label});
    const double cost = weighted.run({3, {inputs, kind.labels, {.values = {1, 2, 0}}}});
    const double expected = plain.run({3, {counted_inputs, kind.counted}});
    EXPECT_NEAR(cost, expected, 1e-5 * expected);
    for (std::size_t p = 0; p < weighted.gradients.size(); ++p) {
      for (std::size_t i = 0; i < weighted.gradients[p].size(); ++i)
        EXPECT_NEAR(weighted.gradients[p][i], plain.gradients[p][i], 1e-4) << p << " " << i;
    }
    EXPECT_TRUE(std::ranges::any_of(weighted.network.rules(), [](const SlotRule& rule) {
      return rule.is_weight && rule.is_label && rule.slot == 2;  // predictions need no weight
    }));
  }
  EXPECT_THROW(TestNetwork({fc("out", {"x"}, 3, ""), labelled("nce", "cost", "out")},
                           {"x:2", "y", "weight:1"}),
               std::runtime_error);
}

// A network for predictions computes the same as the whole one.
TEST(Network, ForOneOutputOnlyThatIsComputed) {
  const std::vector<config::LayerConfig> layers{
      embedding("e0", {"w0"}, 4, false), embedding("e1", {"w1"}, 4, false),
      concat("context", {"e0", "e1"}),   fc("hidden", {"context"}, 6, "sigmoid"),
      fc("out", {"hidden"}, 5, ""),      cost("cost", "out", "next")};
  const auto slots = parse_slots({"w0", "w1", "next"});
  const auto whole = Network::build(layers, slots);
  ASSERT_TRUE(whole) << whole.error().message;
  std::vector<std::vector<float>> values;
  Parameters parameters;
  Rng rng(7);
  for (const auto& spec : whole->parameters()) {
    values.emplace_back(element_count(spec));
    for (float& value : values.back()) value = static_cast<float>(rng.uniform()) - 0.5F;
  }
  for (const auto& value : values) parameters.dense.emplace_back(value);
  parameters.sparse.resize(values.size());
  Batch batch = toy_text(7, 3);
  batch.slots[2].ids.assign(7, 99);  // no label of these five: the cost would refuse it
  std::map<std::string, std::vector<float>> found;
  for (const std::string name : {"e0", "context", "hidden", "out"}) {
    const auto network = Network::build(layers, slots, {}, name);
    ASSERT_TRUE(network) << network.error().message;
    Workspace workspace;
    const nn::Run run{
        .batch = batch, .begin = 0, .end = 7, .parameters = parameters, .mode = Mode::kTest};
    const auto cost = network->forward(run, workspace);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(*cost, 0);
    const auto output = network->output(workspace);
    EXPECT_EQ(output.size(), 7 * network->output_width());
    found[name].assign(output.begin(), output.end());
  }
  for (std::size_t i = 0; i < 7; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      const std::uint64_t word = batch.slots[0].ids[i];
      EXPECT_EQ(found["e0"][i * 4 + j], values[0][word * 4 + j]) << "though others take it over";
      EXPECT_EQ(found["context"][i * 8 + j], found["e0"][i * 4 + j]);
    }
  }
  EXPECT_EQ(found["out"].size(), 35U);
  EXPECT_EQ(Network::build(layers, slots, {}, "cost").error().message,
            "layer 'cost' is a cost, which has no output");
  EXPECT_EQ(Network::build(layers, slots, {}, "hiden").error().message,
            "no layer 'hiden', did you mean 'hidden'?");
}

TEST(Network, ParametersInNetworkOrderWithNamesShapesAndAttributes) {
  auto words = embedding("words", {"w"}, 4, true, "table");
  words.weight.initial_std = 0.25F;
  words.weight.l2 = 0.0F;
  words.weight.l1 = 0.125F;
  words.weight.clip_value = 5.0F;
  words.weight.clip_norm = 6.0F;
  auto hidden = fc("hidden", {"words", "words"}, 8, "");
  hidden.bias.learning_rate = 2;
  const auto network =
      Network::build({words, hidden, cost("cost", "hidden", "y")}, parse_slots({"w", "y"}));
  ASSERT_TRUE(network) << network.error().message;
  const auto& parameters = network->parameters();
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[0].name(), "table");
  EXPECT_TRUE(parameters[0].sparse());
  EXPECT_EQ(parameters[0].dims(0), 0U);
  EXPECT_EQ(parameters[0].dims(1), 4U);
  EXPECT_EQ(parameters[0].initial_std(), 0.25F);
  // An attribute of one parameter, even 0, replaces the optimizer's.
  EXPECT_TRUE(parameters[0].has_l2());
  EXPECT_EQ(parameters[0].l2(), 0.0F);
  EXPECT_EQ(parameters[0].l1(), 0.125F);
  EXPECT_EQ(parameters[0].clip_value(), 5.0F);
  EXPECT_EQ(parameters[0].clip_norm(), 6.0F);
  EXPECT_EQ(parameters[1].name(), "_hidden.w0");
  EXPECT_EQ(parameters[2].name(), "_hidden.w1");
  EXPECT_EQ(parameters[2].dims(0), 4U);
  EXPECT_EQ(parameters[2].dims(1), 8U);
  EXPECT_FALSE(parameters[2].has_l1() || parameters[2].has_l2() || parameters[2].has_clip_value() ||
               parameters[2].has_clip_norm());
  EXPECT_FLOAT_EQ(parameters[2].initial_std(), 1 / std::sqrt(8.0F));
  EXPECT_EQ(parameters[3].name(), "_hidden.wbias");
  EXPECT_EQ(parameters[3].initial_std(), 0.0F);
  EXPECT_EQ(parameters[3].learning_rate(), 2.0F);
}

TEST(Network, CollectsIdsSortedAndUniqueOverTheSlotsThatShareATable) {
  TestNetwork test = ngram();
  test.network.collect_ids({3, {{{5, 1, 5}, {}}, {{0, 1, 6}, {}}, {{2, 2, 2}, {}}}}, 1, test.ids);
  EXPECT_EQ(test.ids[0], (std::vector<std::uint64_t>{0, 1, 5, 6}));
  EXPECT_TRUE(test.ids[1].empty());
}

TEST(Network, LearnsAToyLanguage) {
  TestNetwork test = ngram();
  const Batch held_out = toy_text(200, 99);
  const double before = test.test(held_out).value() / 200;
  EXPECT_GT(before, 1.5);
  for (std::uint64_t batch = 0; batch < 2500; ++batch) {
    test.run(toy_text(32, batch));
    test.step(0.5F / 32);
  }
  EXPECT_LT(test.test(held_out).value() / 200, 0.2);
  const std::vector<Value> values = test.network.values(test.workspace.tally());
  EXPECT_EQ(values[0].name, "classification_error");
  EXPECT_LT(values[0].value, 0.05);
}

TEST(Network, TheSameRunGivesTheSameBitsOnAnyThreadAndInAUsedWorkspace) {
  const Batch batch = toy_text(50, 3);
  TestNetwork first = ngram();
  first.run(toy_text(80, 4));  // leaves other values in the workspace
  const double cost_sum = first.run(batch, 3);
  std::vector<TestNetwork> others;
  for (int i = 0; i < 4; ++i) others.push_back(ngram());
  std::vector<double> costs(others.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < others.size(); ++i) {
    threads.emplace_back([&, i] { costs[i] = others[i].run(batch, 3); });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(costs[i], cost_sum);
    EXPECT_EQ(others[i].gradients, first.gradients);
  }
}

TEST(Network, ASplitBatchSumsToTheWholeAndAnEmptyPartAddsNothing) {
  const Batch batch = toy_text(10, 3);
  TestNetwork test = ngram();
  const double whole = test.run(batch);
  const auto gradients = test.gradients;
  EXPECT_NEAR(test.run(batch, 16), whole, 1e-5);  // floats of other matrix kernels
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    for (std::size_t i = 0; i < gradients[p].size(); ++i) {
      ASSERT_NEAR(test.gradients[p][i], gradients[p][i], 1e-5);
    }
  }
  EXPECT_EQ(test.run({0, {{}, {}, {}}}), 0.0);
  for (const auto& gradient : test.gradients) {
    for (const float value : gradient) EXPECT_EQ(value, 0.0F);
  }
}

TEST(Network, MatrixProductsAreOfThePrecisionOfTheRun) {
  if (!kernels::use_bfloat16()) GTEST_SKIP() << "the CPU has no AVX512-BF16";
  for (const char* type : {"fc", "cross"}) {
    auto middle = layer(type, "m", {"x"});
    if (middle.type == "fc") middle.size = 16;
    TestNetwork test({middle, cost("cost", "m", "y")}, {"x:16", "y"});
    Batch batch{3, {{}, {{1, 0, 2}}}};
    Rng rng(1);
    for (int i = 0; i < 48; ++i) batch.slots[0].values.push_back(static_cast<float>(rng.normal()));
    const double exact = test.run(batch);
    const auto gradients = test.gradients;
    test.compute = kernels::Compute::kBfloat16;
    const double rounded = test.run(batch);
    EXPECT_NE(rounded, exact) << type;
    EXPECT_NEAR(rounded, exact, 0.1) << type;
    EXPECT_NE(test.gradients[0], gradients[0]) << type;
  }
}

// A concat puts the slots of an embedding side by side behind another layer, in every part.
TEST(Network, ASplitBatchReadsTheSameRowsOfSeveralSlots) {
  const Batch batch{5,
                    {{{0, 1, 2, 3, 4}, {}},
                     {{4, 4, 0, 6, 5}, {}},
                     {{1, 2, 3, 5, 6}, {}},
                     {{}, {}, {}, {1, 2, 3, 4, 5}},
                     {{0, 1, 1, 0, 2}, {}}}};
  TestNetwork test(
      {embedding("e", {"a", "b", "c"}, 2, true), fc("f", {"price"}, 3, "identity"),
       concat("all", {"f", "e"}), fc("x", {"all"}, 3, "identity"), cost("cost", "x", "y")},
      {"a", "b", "c", "price:1", "y"});
  const double whole = test.run(batch);
  const auto gradients = test.gradients;
  EXPECT_NEAR(test.run(batch, 2), whole, 1e-6);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    for (std::size_t i = 0; i < gradients[p].size(); ++i) {
      ASSERT_NEAR(test.gradients[p][i], gradients[p][i], 1e-5);
    }
  }
}

TEST(Network, WrongDataIsNamed) {
  TestNetwork test = ngram();
  expect_data_error(test, {1, {{{0}, {}}, {{1}, {}}, {{7}, {}}}},
                    "layer 'cost': label 7 in slot 'next' is not below the 7 classes");
  expect_data_error(test, {1, {{{0}, {}}, {{1}, {}}, {{}, {0, 0}}}},
                    "layer 'cost': an example has 0 labels in slot 'next'");
  expect_data_error(test, {1, {{{0, 1}, {0, 2}}, {{1}, {}}, {{1}, {}}}},
                    "layer 'e0': slot 'w0' holds a varying number of ids per example");
  expect_data_error(test, {2, {{{0}, {}}, {{1, 2}, {}}, {{1, 1}, {}}}},
                    "slot 'w0': 1 ids and 0 offsets do not match 2 examples");
  expect_data_error(test, {2, {{{0}, {0, 2, 1}}, {{1, 2}, {}}, {{1, 1}, {}}}},
                    "slot 'w0': 1 ids and 3 offsets do not match 2 examples");
  expect_data_error(test, {1, {{{0}, {1, 1}}, {{1}, {}}, {{1}, {}}}},
                    "slot 'w0': 1 ids and 2 offsets do not match 1 examples");
  expect_data_error(test, {1, {{{0}, {}}, {{1}, {}, {1, 2}}, {{1}, {}}}},
                    "slot 'w1': 2 weights for 1 ids");
  expect_data_error(test, {1, {{{0}, {}}, {{1}, {}}, {{1}, {}, {}, {1}}}},
                    "slot 'next': 1 ids and 1 floats do not match 1 examples with 0 floats each");
  TestNetwork floats({fc("x", {"f"}, 3, "identity"), cost("cost", "x", "y")}, {"f:2", "y"});
  expect_data_error(floats, {1, {{{}, {}, {}, {1}}, {{0}, {}}}},
                    "slot 'f': 0 ids and 1 floats do not match 1 examples with 2 floats each");
  expect_data_error(test, {0, {}}, "a batch has 0 slots, but the network reads 3");
  TestNetwork dense({embedding("e", {"w"}, 3, false), cost("cost", "e", "y")}, {"w", "y"});
  expect_data_error(dense, {1, {{{7}, {}}, {{0}, {}}}},
                    "layer 'e': id 7 in slot 'w' is not below the vocabulary of 7");
}

TEST(Network, SaysWhatItAsksOfRecords) {
  const TestNetwork dense({embedding("e", {"w"}, 3, false), cost("cost", "e", "y")}, {"w", "y"});
  ASSERT_EQ(dense.network.rules().size(), 3U) << "the cost has an evaluator";
  const SlotRule& rows = dense.network.rules()[0];
  EXPECT_EQ(rows.layer + rows.slot_name, "ew");
  EXPECT_FALSE(rows.is_label);
  EXPECT_EQ(rows.below, kTestVocabulary);
  const SlotRule& label = dense.network.rules()[1];
  EXPECT_EQ(label.layer + label.slot_name, "costy");
  EXPECT_TRUE(label.is_label && label.is_single);
  EXPECT_EQ(label.below, 3U);
  EXPECT_EQ(label.slot, 1U);
  // Predictions do not look at labels.
  const auto asked = Network::build(dense.layers, parse_slots(dense.slots), {}, "e");
  ASSERT_TRUE(asked);
  ASSERT_EQ(asked->rules().size(), 1U);
  EXPECT_EQ(asked->rules()[0].slot_name, "w");
}

TEST(Network, ASlotHasAtMostAsManyLabelsAsThereAreClasses) {
  std::vector<config::SlotConfig> slots = parse_slots({"w", "y"});
  const std::vector<config::LayerConfig> layers{embedding("e", {"w"}, 3, true),
                                                cost("cost", "e", "y")};
  slots[1].labels = {"a", "b", "c"};
  EXPECT_TRUE(Network::build(layers, slots));
  slots[1].labels.emplace_back("d");
  const auto built = Network::build(layers, slots);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Errc::kUsage);
  EXPECT_EQ(built.error().message,
            "layer 'cost': slot 'y' has 4 labels, but the input has outputs for 3");
  EXPECT_EQ(built.error().hint, "give the layer 'e' size = 4");
}

// A hash of 64 bits is below no number of classes.
TEST(Network, ALabelIsNoHash) {
  std::vector<config::SlotConfig> slots = parse_slots({"w", "y"});
  slots[1].hashed = true;
  std::vector<config::LayerConfig> layers{embedding("e", {"w"}, 3, true), cost("cost", "e", "y")};
  layers[1].location = "job.toml:9";
  const auto refuse = [&](const std::string& hint) {
    const auto built = Network::build(layers, slots);
    ASSERT_FALSE(built) << layers[1].type;
    EXPECT_EQ(built.error().code, Errc::kUsage);
    EXPECT_EQ(built.error().message,
              "job.toml:9: layer 'cost': label 'y' is a slot of hashes, which are not numbers of "
              "classes");
    EXPECT_EQ(built.error().hint, hint);
  };
  const std::string list =
      "list the texts of the classes in that slot, in their order: labels = [\"no\", \"yes\"], "
      "with "
      "type = \"id\" (\"ids\" for lists of texts)";
  refuse(list);
  slots[1].buckets = 4;  // more than there are classes
  refuse(list);
  slots[1].many = true;
  layers[1].type = "binary_cross_entropy";
  refuse(list);
  slots[1].many = false;
  slots[1].buckets = 0;
  layers[0].size = 1;
  for (const char* type : {"binary_cross_entropy", "squared_error"}) {
    layers[1].type = type;
    refuse(list);
  }
  layers[1].type = "nce";
  layers[1].vocabulary = 1000;
  refuse("set [data] buckets = 1000, the vocabulary: then each hash is a class");
  slots[1].buckets = 1000;  // the step that the hint names
  EXPECT_TRUE(Network::build(layers, slots));
  // Hashes that nothing reads as a label stay as they are.
  slots[1].hashed = false;
  slots[0].hashed = true;
  EXPECT_TRUE(Network::build(layers, slots));
}

// It would estimate the number of the class in place of the number in the data.
TEST(Network, ASquaredErrorReadsNoLabels) {
  std::vector<config::SlotConfig> slots = parse_slots({"w", "y"});
  std::vector<config::LayerConfig> layers{embedding("e", {"w"}, 1, true), cost("cost", "e", "y")};
  layers[1].type = "squared_error";
  EXPECT_TRUE(Network::build(layers, slots));
  slots[1].labels = {"10", "20"};
  const auto built = Network::build(layers, slots);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Errc::kUsage);
  EXPECT_EQ(built.error().message,
            "layer 'cost': it reads slot 'y' as a number, but 'labels' of that slot make it the "
            "number of a class");
}

}  // namespace
}  // namespace paddle::nn
