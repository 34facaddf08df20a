// Evaluators against values by hand and by brute force, and sums of their tallies.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

config::LayerConfig evaluator(std::string type, std::string input, std::string label,
                              std::string name = "") {
  config::LayerConfig made = layer(type, name.empty() ? type : name, {std::move(input)});
  made.label = std::move(label);
  return made;
}

// Network whose evaluators read the float slot "x" unchanged.
struct Evaluated {
  Evaluated(const std::string& cost_type, std::size_t width, std::string label_slot,
            std::vector<config::LayerConfig> evaluators)
      : network([&] {
          auto identity = layer("activation", "out", {"x"});
          identity.activation = "identity";
          auto built = Network::build(
              {identity, labelled(cost_type, "cost", "out")},
              parse_slots({"x:" + std::to_string(width), std::move(label_slot)}), evaluators);
          EXPECT_TRUE(built) << built.error().message;
          return *std::move(built);
        }()) {}

  Tally tally(const Batch& batch, std::size_t begin, std::size_t end) {
    const Parameters none;
    const auto cost = network.forward(
        Run{.batch = batch, .begin = begin, .end = end, .parameters = none, .mode = Mode::kTest},
        workspace);
    EXPECT_TRUE(cost) << cost.error().message;
    return workspace.tally();
  }
  double value(const Batch& batch, const std::string& name) {
    return named(network.values(tally(batch, 0, batch.size)), name);
  }
  static double named(const std::vector<Value>& values, const std::string& name) {
    for (const Value& one : values) {
      if (one.name == name) return one.value;
    }
    ADD_FAILURE() << "there is no value " << name;
    return 0;
  }

  Network network;
  Workspace workspace;
};

Batch floats_and_ids(std::vector<float> x, std::vector<std::uint64_t> y) {
  Batch batch{y.size(), {{}, {}}};
  batch.slots[0].values = std::move(x);
  batch.slots[1].ids = std::move(y);
  return batch;
}

double logit(double p) {
  return std::log(p / (1 - p));
}

// Fraction of pairs in the right order; ties count half.
double brute_force_auc(const std::vector<float>& scores, const std::vector<std::uint64_t>& labels) {
  double good = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      ++pairs;
      good += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return good / pairs;
}

struct Clicks {
  std::vector<float> logits;
  std::vector<std::uint64_t> labels;
};

Clicks random_clicks(std::size_t count) {
  Rng rng(3);
  Clicks clicks;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = 0.05 + 0.9 * rng.uniform();
    clicks.logits.push_back(static_cast<float>(logit(p)));
    clicks.labels.push_back(rng.uniform() < p ? 1 : 0);
  }
  return clicks;
}

TEST(Evaluator, AucByHand) {
  Evaluated one("binary_cross_entropy", 1, "y", {evaluator("auc", "out", "y")});
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({-2, -1, 1, 2}, {0, 0, 1, 1}), "auc"), 1.0);
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({-2, -1, 1, 2}, {1, 1, 0, 0}), "auc"), 0.0);
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({-2, -1, 1, 2}, {0, 1, 0, 1}), "auc"), 0.75);
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({1, 1, 1}, {0, 1, 0}), "auc"), 0.5);  // ties
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({-90, 90}, {0, 1}), "auc"), 1.0);
}

TEST(Evaluator, AucOfOneClassIsUndefinedAndSaysWhy) {
  Evaluated one("binary_cross_entropy", 1, "y", {evaluator("auc", "out", "y")});
  for (const std::uint64_t label : {0U, 1U}) {
    const Batch batch = floats_and_ids({1, 2}, {label, label});
    const auto values = one.network.values(one.tally(batch, 0, 2));
    EXPECT_TRUE(std::isnan(values[0].value));
    EXPECT_EQ(values[0].undefined, "all labels are of one class");
  }
  EXPECT_EQ(one.network.values({})[0].undefined, "there is no example");
  EXPECT_EQ(one.network.values(one.tally(floats_and_ids({1, 2}, {0, 1}), 0, 2))[0].undefined, "");
}

// Probabilities from 6e-6 to 1.8e-4, all clicks above all others but the last.
TEST(Evaluator, AucOfRareEventsIsExact) {
  Evaluated one("binary_cross_entropy", 1, "y", {evaluator("auc", "out", "y")});
  std::vector<float> logits;
  std::vector<std::uint64_t> labels;
  for (int i = 0; i < 3000; ++i) {
    logits.push_back(-12 + static_cast<float>(i) / 1000);
    labels.push_back(i > 2990 && i < 2999 ? 1 : 0);
  }
  EXPECT_NEAR(one.value(floats_and_ids(logits, labels), "auc"), brute_force_auc(logits, labels),
              1e-9);
}

// As `paddle predict` prints them: a probability has no bits left for what is above 17 or so, and a
// number of another cost has them all.
TEST(Evaluator, AucIsOfTheScoresThatPredictionsHave) {
  const Batch batch = floats_and_ids({20, 25, 30, 35}, {0, 1, 0, 1});
  Evaluated clicks("binary_cross_entropy", 1, "y", {evaluator("auc", "out", "y")});
  EXPECT_DOUBLE_EQ(clicks.value(batch, "auc"), 0.5);
  Evaluated numbers("squared_error", 1, "y", {evaluator("auc", "out", "y")});
  EXPECT_DOUBLE_EQ(numbers.value(batch, "auc"), 0.75);
  EXPECT_DOUBLE_EQ(numbers.value(floats_and_ids({-3e9F, -7, 0, 3e9F}, {0, 1, 0, 1}), "auc"), 0.75);
}

TEST(Evaluator, AucIsThatOfAllPairs) {
  const Clicks clicks = random_clicks(2000);
  const double exact = brute_force_auc(clicks.logits, clicks.labels);
  EXPECT_GT(exact, 0.6);
  Evaluated one("binary_cross_entropy", 1, "y", {evaluator("auc", "out", "y")});
  EXPECT_NEAR(one.value(floats_and_ids(clicks.logits, clicks.labels), "auc"), exact, 1e-5);
  // As two classes the logit is the difference.
  Evaluated two("softmax_cross_entropy", 2, "y", {evaluator("auc", "out", "y")});
  std::vector<float> pairs;
  for (const float x : clicks.logits) pairs.insert(pairs.end(), {1 - x / 2, 1 + x / 2});
  EXPECT_NEAR(two.value(floats_and_ids(pairs, clicks.labels), "auc"), exact, 1e-4);
}

TEST(Evaluator, AucTakesNotANumberAsTheLowestScore) {
  Evaluated one("squared_error", 1, "y", {evaluator("auc", "out", "y")});
  const float nan = std::nanf("");
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({nan, 0, 1}, {0, 1, 1}), "auc"), 1.0);
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({nan, 0, 1}, {1, 0, 0}), "auc"), 0.0);
}

// Behind a sigmoid an output is a probability: 0.5 is the threshold, and no second sigmoid.
TEST(Evaluator, ASigmoidBeforeTheEvaluatorMakesProbabilities) {
  auto sigmoid = layer("activation", "p", {"x"});
  sigmoid.activation = "sigmoid";
  const auto built =
      Network::build({sigmoid, labelled("squared_error", "cost", "p")}, parse_slots({"x:1", "y"}),
                     {evaluator("classification_error", "p", "y"),
                      evaluator("precision_recall", "p", "y"), evaluator("auc", "p", "y")});
  ASSERT_TRUE(built) << built.error().message;
  const Batch batch = floats_and_ids(
      {-1, 1, static_cast<float>(logit(0.9000)), static_cast<float>(logit(0.9004))}, {0, 0, 0, 1});
  const Parameters none;
  Workspace workspace;
  ASSERT_TRUE(built->forward(
      nn::Run{.batch = batch, .end = 4, .parameters = none, .mode = Mode::kTest}, workspace));
  const auto values = built->values(workspace.tally());
  EXPECT_EQ(Evaluated::named(values, "classification_error"), 0.5);
  EXPECT_EQ(Evaluated::named(values, "precision"), 1.0 / 3);
  EXPECT_EQ(Evaluated::named(values, "auc"), 1.0);
}

TEST(Evaluator, AucMergedOverTrainersIsThatOfAllData) {
  const Clicks clicks = random_clicks(999);
  const Batch batch = floats_and_ids(clicks.logits, clicks.labels);
  Evaluated one("binary_cross_entropy", 1, "y",
                {evaluator("auc", "out", "y"), evaluator("precision_recall", "out", "y")});
  const Tally whole = one.tally(batch, 0, 999);
  Tally merged;
  double mean_of_parts = 0;
  for (const auto& [begin, end] :
       {std::pair<std::size_t, std::size_t>{0, 100}, {100, 103}, {103, 103}, {103, 999}}) {
    const Tally part = one.tally(batch, begin, end);
    const double own = Evaluated::named(one.network.values(part), "auc");
    mean_of_parts += (std::isnan(own) ? 0.5 : own) / 4;
    merged.add(part);
  }
  EXPECT_EQ(merged.counts, whole.counts);
  EXPECT_EQ(merged.sums, whole.sums);
  EXPECT_EQ(merged.histograms, whole.histograms);
  const double auc = Evaluated::named(one.network.values(merged), "auc");
  EXPECT_NEAR(auc, brute_force_auc(clicks.logits, clicks.labels), 1e-5);
  EXPECT_GT(std::fabs(auc - mean_of_parts), 1e-3);  // merging is not averaging
}

// Data by formula, and what scikit-learn 1.2 finds in it:
//   i = numpy.arange(200); x = (i * 37 % 101 - 50) / 16; p = 1 / (1 + numpy.exp(-x)); g = i * i % 7
//   y = (i * i * 7 + 3 * i) % 11 + i * 37 % 101 // 10 >= 10
constexpr double kPrAuc = 0.7685776425651828;  // average_precision_score(y, p)
constexpr double kGauc = 0.7737974283060489;   // sum(n_g * roc_auc_score(y_g, p_g)) / sum(n_g)
constexpr double kCalibration = 1.1000250789639092;  // p.mean() / y.mean()
// calibration_curve(y, p, n_bins=10, strategy="quantile"): p, y
const CurvePoints kCalibrationCurve{
    {0.055752039, 0.15}, {0.099224746, 0.15}, {0.174307746, 0.19047619},  {0.289159926, 0.3},
    {0.43069408, 0.6},   {0.584441407, 0.45}, {0.724363497, 0.526315789}, {0.829650241, 0.55},
    {0.900775254, 0.65}, {0.944247961, 1.0}};

struct Grouped {
  Batch batch{200, {{}, {}, {}}};

  Grouped() {
    for (std::uint64_t i = 0; i < batch.size; ++i) {
      const std::uint64_t score = i * 37 % 101;
      batch.slots[0].values.push_back((static_cast<float>(score) - 50) / 16);
      batch.slots[1].ids.push_back((i * i * 7 + 3 * i) % 11 + score / 10 >= 10 ? 1 : 0);
      batch.slots[2].ids.push_back(i * i % 7);
    }
  }
};

config::LayerConfig gauc() {
  config::LayerConfig made = evaluator("gauc", "out", "y");
  made.group = "group";
  return made;
}

// All of them, of logits.
struct FourAreas {
  Network network = [] {
    auto identity = layer("activation", "out", {"x"});
    identity.activation = "identity";
    auto built =
        Network::build({identity, labelled("binary_cross_entropy", "cost", "out")},
                       parse_slots({"x:1", "y", "group"}),
                       {evaluator("pr_auc", "out", "y"), gauc(),
                        evaluator("calibration", "out", "y"), evaluator("auc", "out", "y")});
    EXPECT_TRUE(built) << built.error().message;
    return *std::move(built);
  }();
  Workspace workspace;

  Tally tally(const Batch& batch, std::size_t begin, std::size_t end, Mode mode = Mode::kTest) {
    const Parameters none;
    const auto cost = network.forward(
        Run{.batch = batch, .begin = begin, .end = end, .parameters = none, .mode = mode},
        workspace);
    EXPECT_TRUE(cost) << cost.error().message;
    return workspace.tally();
  }
};

TEST(Evaluator, PrAucGaucAndCalibrationAreThoseOfScikitLearn) {
  const Grouped data;
  FourAreas all;
  for (const Mode mode : {Mode::kTest, Mode::kTrain}) {
    const auto values = all.network.values(all.tally(data.batch, 0, 200, mode));
    EXPECT_NEAR(Evaluated::named(values, "pr_auc"), kPrAuc, 1e-12);
    EXPECT_NEAR(Evaluated::named(values, "gauc"), kGauc, 1e-12);
    EXPECT_NEAR(Evaluated::named(values, "calibration"), kCalibration, 1e-6);
    EXPECT_TRUE(values[0].higher_is_better && values[1].higher_is_better);
    EXPECT_TRUE(values[2].one_is_best);
    EXPECT_EQ(values[0].curve.kind, "precision_recall");
    EXPECT_EQ(values[1].curve.kind, "");
    EXPECT_EQ(values[3].curve.kind, "roc");
    EXPECT_EQ(values[3].curve.points.back(), (std::pair<double, double>{1, 1}));
    const Curve& curve = values[2].curve;
    EXPECT_EQ(curve.kind, "calibration");
    ASSERT_EQ(curve.points.size(), kCalibrationCurve.size());
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      EXPECT_NEAR(curve.points[i].first, kCalibrationCurve[i].first, 1e-6);
      EXPECT_NEAR(curve.points[i].second, kCalibrationCurve[i].second, 1e-6);
    }
  }
}

TEST(Evaluator, PrAucGaucAndCalibrationMergedOverTrainersAreThoseOfAllData) {
  const Grouped data;
  FourAreas all;
  const Tally whole = all.tally(data.batch, 0, 200);
  Tally merged;
  for (const auto& [begin, end] :
       {std::pair<std::size_t, std::size_t>{150, 200}, {0, 3}, {3, 3}, {3, 150}}) {
    const auto part = decode_tally(encode(all.tally(data.batch, begin, end)), 2, 1, 3, 1);
    ASSERT_TRUE(part) << part.error().message;
    merged.add(*part);
  }
  EXPECT_EQ(merged.counts, whole.counts);
  EXPECT_EQ(merged.histograms, whole.histograms);
  EXPECT_EQ(merged.grouped, whole.grouped);
  EXPECT_NEAR(merged.sums[0], whole.sums[0], 1e-12);
  EXPECT_NEAR(Evaluated::named(all.network.values(merged), "gauc"), kGauc, 1e-12);
}

TEST(Evaluator, PrAucGaucAndCalibrationSayWhyTheyAreUndefined) {
  FourAreas all;
  const auto why = [&](const std::vector<Value>& values) {
    std::vector<std::string> reasons;
    for (const Value& one : values) {
      EXPECT_EQ(std::isnan(one.value), !one.undefined.empty()) << one.name;
      reasons.push_back(one.undefined);
    }
    reasons.pop_back();  // auc has a test of its own
    return reasons;
  };
  using Reasons = std::vector<std::string>;
  EXPECT_EQ(why(all.network.values({})), Reasons(3, "there is no example"));
  Batch batch{2, {{.values = {1, 2}}, {.ids = {0, 0}}, {.ids = {7, 7}}}};
  EXPECT_EQ(why(all.network.values(all.tally(batch, 0, 2))),
            (Reasons{"no label is 1", "no group has labels of both classes", "no label is 1"}));
  batch.slots[1].ids = {0, 1};
  EXPECT_EQ(why(all.network.values(all.tally(batch, 0, 2))), (Reasons{"", "", ""}));
  batch.slots[2].ids = {7, 8};
  EXPECT_EQ(why(all.network.values(all.tally(batch, 0, 2))),
            (Reasons{"", "no group has labels of both classes", ""}));
}

// Not a number is the lowest score, and the probability 0, so that sums stay finite.
TEST(Evaluator, PrAucGaucAndCalibrationTakeNotANumberAsTheLowestScore) {
  FourAreas all;
  const Batch batch{3, {{.values = {std::nanf(""), 0, 0}}, {.ids = {0, 1, 1}}, {.ids = {7, 7, 7}}}};
  const auto values = all.network.values(all.tally(batch, 0, 3));
  EXPECT_DOUBLE_EQ(Evaluated::named(values, "pr_auc"), 1.0);
  EXPECT_DOUBLE_EQ(Evaluated::named(values, "gauc"), 1.0);
  EXPECT_DOUBLE_EQ(Evaluated::named(values, "calibration"), 0.5);
}

TEST(Evaluator, AnExampleIsInOneGroup) {
  FourAreas all;
  Batch batch{2, {{.values = {1, 2}}, {.ids = {0, 1}}, {.ids = {7, 8, 9}, .offsets = {0, 1, 3}}}};
  const Parameters none;
  const auto cost = all.network.forward(
      nn::Run{.batch = batch, .begin = 0, .end = 2, .parameters = none, .mode = Mode::kTest},
      all.workspace);
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().message, "evaluator 'gauc': an example has 2 ids in slot 'group'");
  bool has_rule = false;
  for (const SlotRule& rule : all.network.rules())
    has_rule = has_rule || (rule.slot_name == "group" && rule.is_single && rule.is_label);
  EXPECT_TRUE(has_rule) << "so that a record is refused with its file and line";
}

TEST(Evaluator, ClassificationErrorOfClassesAndOfOneOutput) {
  Evaluated three("softmax_cross_entropy", 3, "y", {});  // with the default evaluators
  const Batch batch = floats_and_ids({1, 2, 3, 5, 1, 1, 0, 2, 1}, {2, 1, 1});
  EXPECT_DOUBLE_EQ(three.value(batch, "classification_error"), 1.0 / 3);
  Evaluated one("binary_cross_entropy", 1, "y", {evaluator("classification_error", "out", "y")});
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({-1, 2, 3, -4}, {0, 1, 0, 1}), "classification_error"),
                   0.5);
}

TEST(Evaluator, PerplexityIsThatOfTheMeanCost) {
  Evaluated three("softmax_cross_entropy", 3, "y", {});
  EXPECT_NEAR(three.value(floats_and_ids({0, 0, 0, 7, 7, 7}, {2, 0}), "perplexity"), 3.0, 1e-6);
  const auto wide = static_cast<float>(std::log(8.0));
  EXPECT_NEAR(three.value(floats_and_ids({wide, 0, 0, 0, 0, wide}, {0, 0}), "perplexity"),
              std::sqrt(10.0 / 8 * 10), 1e-5);
}

TEST(Evaluator, PrecisionAndRecallOfYes) {
  Evaluated one("binary_cross_entropy", 1, "y", {evaluator("precision_recall", "out", "y")});
  // Three are predicted "yes", two of them rightly; one "yes" is missed.
  const Batch batch = floats_and_ids({1, 2, 3, -1, -2}, {1, 1, 0, 1, 0});
  EXPECT_DOUBLE_EQ(one.value(batch, "precision"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(one.value(batch, "recall"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(one.value(batch, "f1"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(one.value(floats_and_ids({-1, -2}, {1, 0}), "precision"), 0.0);
}

TEST(Evaluator, PrecisionAndRecallAreMeansOverTheClassesSeen) {
  Evaluated four("softmax_cross_entropy", 4, "y",
                 {evaluator("precision_recall", "out", "y", "quality")});
  // Predicted 0 0 1 2, labels 0 1 1 1; class 3 occurs in neither.
  const Batch batch =
      floats_and_ids({9, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0}, {0, 1, 1, 1});
  EXPECT_DOUBLE_EQ(four.value(batch, "quality.precision"), (0.5 + 1.0 + 0.0) / 3);
  EXPECT_DOUBLE_EQ(four.value(batch, "quality.recall"), (1.0 + 1.0 / 3 + 0.0) / 3);
  EXPECT_DOUBLE_EQ(four.value(batch, "quality.f1"), (2.0 / 3 + 0.5 + 0.0) / 3);
  Evaluated tags("binary_cross_entropy", 2, "y:2", {evaluator("precision_recall", "out", "y")});
  Batch many{2, {{}, {}}};
  many.slots[0].values = {1, 1, -1, 1};
  many.slots[1].values = {1, 0, 1, 1};
  EXPECT_DOUBLE_EQ(tags.value(many, "precision"), (1.0 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(tags.value(many, "recall"), (0.5 + 1.0) / 2);
}

TEST(Evaluator, RmseOfRatingsAndOfFloats) {
  Evaluated rating("squared_error", 1, "y", {});
  EXPECT_DOUBLE_EQ(rating.value(floats_and_ids({4, 1}, {5, 4}), "rmse"), std::sqrt(5.0));
  Evaluated floats("squared_error", 2, "y:2", {});
  Batch batch{1, {{}, {}}};
  batch.slots[0].values = {1, 2};
  batch.slots[1].values = {1.5F, 0};
  EXPECT_DOUBLE_EQ(floats.value(batch, "rmse"), std::sqrt((0.25 + 4) / 2));
}

TEST(Evaluator, EmptyTalliesHaveValuesToo) {
  Evaluated three("softmax_cross_entropy", 3, "y", {});
  const auto values = three.network.values({});
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].name, "classification_error");
  EXPECT_EQ(values[0].value, 0.0);
  EXPECT_EQ(values[1].value, 1.0);
}

TEST(Evaluator, TheUsualOnesOfSeveralCostsHaveNamesOfTheirOwn) {
  auto identity = layer("activation", "out", {"x"});
  identity.activation = "identity";
  const auto built = Network::build({identity, labelled("softmax_cross_entropy", "a", "out"),
                                     labelled("softmax_cross_entropy", "b", "out")},
                                    parse_slots({"x:2", "y"}));
  ASSERT_TRUE(built) << built.error().message;
  std::vector<std::string> names;
  for (const Value& one : built->values({})) names.push_back(one.name);
  EXPECT_EQ(names, (std::vector<std::string>{"classification_error", "perplexity",
                                             "classification_error_b", "perplexity_b"}));
}

// An embedding that only a concat reads writes into the concat's output; one that an evaluator
// reads too must not.
TEST(Evaluator, SeesAnEmbeddingWithinAConcat) {
  const auto built =
      Network::build({embedding("e", {"y"}, 3, false), concat("c", {"e"}),
                      labelled("softmax_cross_entropy", "cost", "c")},
                     parse_slots({"y"}), {evaluator("classification_error", "e", "y")});
  ASSERT_TRUE(built) << built.error().message;
  std::vector<float> table(kTestVocabulary * 3);
  for (const std::size_t largest : {0U, 4U, 6U}) table[largest] = 1;
  const Batch batch{4, {{{0, 1, 2, 1}, {}}}};
  const Parameters parameters{{table}, {{}}};
  Workspace workspace;
  ASSERT_TRUE(
      built->forward(nn::Run{.batch = batch, .end = 4, .parameters = parameters}, workspace));
  EXPECT_EQ(Evaluated::named(built->values(workspace.tally()), "classification_error"), 0.25);
}

TEST(Evaluator, TheirCountersAreBounded) {
  auto identity = layer("activation", "out", {"x"});
  identity.activation = "identity";
  std::vector<config::LayerConfig> many;
  for (std::size_t i = 0; i <= kTallyHistogramsMax; ++i) {
    many.push_back(evaluator("auc", "out", "y", "auc" + std::to_string(i)));
  }
  const auto built = Network::build({identity, labelled("binary_cross_entropy", "cost", "out")},
                                    parse_slots({"x:1", "y"}), many);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().hint, "use fewer of them");
  many.clear();
  for (std::size_t i = 0; i <= kTallyGroupedMax; ++i) {
    many.push_back(gauc());
    many.back().name += std::to_string(i);
  }
  const auto grouped = Network::build({identity, labelled("binary_cross_entropy", "cost", "out")},
                                      parse_slots({"x:1", "y", "group"}), many);
  ASSERT_FALSE(grouped);
  EXPECT_EQ(grouped.error().message, "there are 3 evaluators of type gauc; the limit is 2");
}

TEST(Evaluator, WrongLabelsNameTheEvaluator) {
  Evaluated one("squared_error", 1, "y", {evaluator("auc", "out", "y")});
  const Batch batch = floats_and_ids({1}, {2});
  const Parameters none;
  const auto cost = one.network.forward(
      nn::Run{.batch = batch, .begin = 0, .end = 1, .parameters = none, .mode = Mode::kTest},
      one.workspace);
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().code, Errc::kData);
  EXPECT_EQ(cost.error().message, "evaluator 'auc': label 2 in slot 'y' is neither 0 nor 1");
}

std::string evaluator_error(const config::LayerConfig& evaluator) {
  auto identity = layer("activation", "out", {"x"});
  identity.activation = "identity";
  const auto built = Network::build({identity, labelled("softmax_cross_entropy", "cost", "out")},
                                    parse_slots({"x:3", "y"}), {evaluator});
  return built ? "none" : built.error().message;
}

TEST(Evaluator, MistakesNameTheEvaluator) {
  EXPECT_EQ(evaluator_error(evaluator("auc", "out", "y")),
            "evaluator 'auc': its input has 3 outputs; auc needs one output or two");
  EXPECT_EQ(evaluator_error(evaluator("gauc", "out", "y")),
            "evaluator 'gauc': its input has 3 outputs; gauc needs one output or two");
  EXPECT_EQ(evaluator_error(evaluator("auc", "oot", "y")),
            "evaluator 'auc': unknown input 'oot', did you mean 'out'?");
  EXPECT_EQ(evaluator_error(evaluator("rmse", "cost", "y")),
            "evaluator 'rmse': input 'cost' is a cost layer, which has no output");
  EXPECT_EQ(evaluator_error(evaluator("perplexity", "out", "")),
            "evaluator 'perplexity': input 'out' is not a layer of type softmax_cross_entropy");
  EXPECT_EQ(
      evaluator_error(evaluator("classification_error", "out", "")),
      "evaluator 'classification_error': key 'label' is missing: the data slot with the right "
      "answers");
  auto identity = layer("activation", "out", {"x"});
  identity.activation = "identity";
  const std::vector<config::LayerConfig> wide{identity,
                                              labelled("softmax_cross_entropy", "cost", "out")};
  const auto quality = evaluator("precision_recall", "out", "y");
  const auto classes = Network::build(wide, parse_slots({"x:1025", "y"}), {quality});
  ASSERT_FALSE(classes);
  EXPECT_EQ(classes.error().message,
            "evaluator 'precision_recall': its input has 1025 outputs; the limit is 1024 classes");
  const auto twice = Network::build(wide, parse_slots({"x:3", "y"}), {quality, quality});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message,
            "evaluator 'precision_recall': another evaluator has the same name");
  EXPECT_EQ(evaluator_error(evaluator("aucc", "out", "y")),
            "evaluator 'aucc': unknown type 'aucc', did you mean 'auc'?");
}

TEST(Evaluator, MistakesOfGroupsAndProbabilitiesNameTheEvaluator) {
  auto identity = layer("activation", "out", {"x"});
  identity.activation = "identity";
  const auto mistake = [&](const std::string& cost, const config::LayerConfig& wrong) {
    const auto built = Network::build({identity, labelled(cost, "cost", "out")},
                                      parse_slots({"x:1", "y", "group"}), {wrong});
    return built ? "none" : built.error().message;
  };
  EXPECT_EQ(mistake("squared_error", evaluator("calibration", "out", "y")),
            "evaluator 'calibration': its input is no probability");
  auto wrong = gauc();
  wrong.group = "";
  EXPECT_EQ(mistake("squared_error", wrong),
            "evaluator 'gauc': key 'group' is missing: the data slot whose id is an example's "
            "group");
  wrong.group = "x";
  EXPECT_EQ(mistake("squared_error", wrong),
            "evaluator 'gauc': group 'x' is a slot of floats, it must be one of ids");
  wrong.group = "grup";
  EXPECT_EQ(mistake("squared_error", wrong),
            "evaluator 'gauc': unknown group 'grup', did you mean 'group'?");
  EXPECT_EQ(mistake("squared_error", gauc()), "none") << "only the order of scores counts";
}

TEST(Evaluator, MayReadASlotThatNoLayerReads) {
  auto identity = layer("activation", "out", {"x"});
  identity.activation = "identity";
  const Network network =
      *Network::build({identity, labelled("squared_error", "cost", "out")},
                      parse_slots({"x:1", "guess:1", "y:1"}), {evaluator("rmse", "guess", "y")});
  const Batch batch{2, {{.values = {0, 0}}, {.values = {4, 3}}, {.values = {1, -1}}}};
  const Parameters none;
  Workspace workspace;
  ASSERT_TRUE(network.forward(
      nn::Run{.batch = batch, .begin = 0, .end = 2, .parameters = none, .mode = Mode::kTest},
      workspace));
  EXPECT_DOUBLE_EQ(network.values(workspace.tally())[0].value, std::sqrt((9.0 + 16.0) / 2));
}

}  // namespace
}  // namespace paddle::nn
