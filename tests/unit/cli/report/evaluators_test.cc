#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "cli/report/curves.h"

namespace paddle::cli {
namespace {

MetricsLine line_of(const std::string& kind, std::uint64_t pass, std::uint64_t batch, double cost,
                    std::vector<std::pair<std::string, double>> numbers) {
  MetricsLine line;
  line.kind = kind;
  line.pass = pass;
  line.batch = batch;
  line.cost = cost;
  line.numbers = std::move(numbers);
  return line;
}

TEST(EvaluatorCurves, WhereOneIsBestTheNearestToOneIsTheBest) {
  ProcessRecord leader;
  for (std::uint64_t pass = 0; const double value : {0.5, 1.125, 1.5}) {
    leader.metrics.push_back(line_of("test", pass++, 10, 0.4, {{"calibration", value}}));
    leader.metrics.back().texts = {{"higher_is_better", ""}, {"one_is_best", "calibration"}};
  }
  const auto all = evaluator_curves(&leader);
  const auto found = std::ranges::find(all, "calibration", &EvaluatorCurves::name);
  ASSERT_NE(found, all.end());
  EXPECT_TRUE(found->one_is_best);
  ASSERT_TRUE(found->best);
  EXPECT_EQ(found->best->pass, 1U);
  EXPECT_FALSE(std::ranges::find(all, "cost", &EvaluatorCurves::name)->one_is_best);
}

TEST(TestCurves, AreThoseOfTheLastTest) {
  ProcessRecord leader;
  for (std::uint64_t pass = 0; pass < 3; ++pass) {
    leader.metrics.push_back(line_of(pass < 2 ? "test" : "train", pass, 10, 0.4, {{"auc", 0.5}}));
    const double y = 0.25 * static_cast<double>(pass);
    leader.metrics.back().lists = {
        {"curve:roc:auc", {0, 0, 0.5, y, 1, 1}}, {"lags", {1, 2}}, {"curve:broken", {1, 2}}};
  }
  const auto curves = test_curves(&leader);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].kind, "roc");
  EXPECT_EQ(curves[0].name, "auc");
  EXPECT_EQ(curves[0].pass, 1U);
  EXPECT_EQ(curves[0].points, (Points{{0, 0}, {0.5, 0.25}, {1, 1}}));
  EXPECT_TRUE(test_curves(nullptr).empty());
}

TEST(EvaluatorCurves, TheHeadlineIsWhatPeopleCompareByWithItsBestPass) {
  ProcessRecord leader;
  const std::vector<double> auc{0.81, 0.9018, 0.89};
  const std::vector<double> training{0.9, 0.91, 0.92};
  for (std::uint64_t pass = 0; pass < auc.size(); ++pass) {
    leader.metrics.push_back(
        line_of("pass", pass, 10, 9, {{"total_cost", 0.5}, {"total_auc", training[pass]}}));
    leader.metrics.push_back(line_of("test", pass, 10, 0.4 - 0.1 * static_cast<double>(pass),
                                     {{"classification_error", 0.1}, {"auc", auc[pass]}}));
  }
  const auto all = evaluator_curves(&leader);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "auc");
  EXPECT_TRUE(all[0].higher_is_better);
  ASSERT_TRUE(all[0].best && all[0].last);
  EXPECT_EQ(all[0].best->value, 0.9018);
  EXPECT_EQ(all[0].best->pass, 1U);
  EXPECT_EQ(all[0].last->value, 0.89);
  EXPECT_EQ(all[0].held_out, (Points{{10, 0.81}, {20, 0.9018}, {30, 0.89}}));
  EXPECT_EQ(all[0].training, (Points{{10, 0.9}, {20, 0.91}, {30, 0.92}}));
  EXPECT_EQ(all[1].name, "classification_error");
  EXPECT_EQ(all[2].name, "cost");
  ASSERT_TRUE(all[2].best);
  EXPECT_EQ(all[2].best->pass, 2U);
}

// Both are what a softmax_cross_entropy layer has by default.
TEST(EvaluatorCurves, AClassifierIsJudgedByItsErrorsAndAModelOfWordsByPerplexity) {
  const auto headline = [](double error, double perplexity) {
    ProcessRecord leader;
    for (std::uint64_t pass = 0; pass < 2; ++pass) {
      leader.metrics.push_back(line_of(
          "test", pass, 10, 1, {{"classification_error", error}, {"perplexity", perplexity}}));
    }
    return evaluator_curves(&leader).front().name;
  };
  EXPECT_EQ(headline(0.09, 1.3), "classification_error") << "of two classes";
  EXPECT_EQ(headline(0.03, 1.1), "classification_error") << "of ten digits";
  EXPECT_EQ(headline(0.8, 104), "perplexity") << "of 2,000 words";
  EXPECT_EQ(headline(0.5, 2), "perplexity") << "right by chance";
}

TEST(EvaluatorCurves, OfOnePassShowItsLogPoints) {
  ProcessRecord leader;
  leader.metrics = {line_of("train", 0, 5, 5, {{"perplexity", 150}}),
                    line_of("train", 0, 10, 4, {{"perplexity", 120}}),
                    line_of("pass", 0, 10, 4, {{"total_perplexity", 119}}),
                    line_of("test", 0, 10, 4, {{"perplexity", 130}})};
  const auto all = evaluator_curves(&leader);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "perplexity");
  EXPECT_FALSE(all[0].higher_is_better);
  EXPECT_EQ(all[0].training, (Points{{5, 150}, {10, 120}}));
  EXPECT_EQ(all[0].held_out, (Points{{10, 130}}));
}

TEST(EvaluatorCurves, TheLinesSayThatHigherIsBetter) {
  ProcessRecord leader;
  leader.metrics = {line_of("test", 0, 5, 5, {{"clicks", 0.7}}),
                    line_of("test", 1, 10, 4, {{"clicks", 0.8}})};
  for (MetricsLine& line : leader.metrics) line.texts = {{"higher_is_better", "clicks"}};
  const auto all = evaluator_curves(&leader);
  ASSERT_EQ(all[0].name, "clicks");
  EXPECT_TRUE(all[0].higher_is_better);
  ASSERT_TRUE(all[0].best);
  EXPECT_EQ(all[0].best->pass, 1U);
}

TEST(EvaluatorCurves, AnOwnProgramsNumbersCountButItsRateOfLearningIsNoHeadline) {
  ProcessRecord leader;
  leader.metrics = {line_of("train", 0, 5, 5, {{"lr", 0.1}}),
                    line_of("train", 0, 10, 4, {{"lr", 0.2}})};
  auto all = evaluator_curves(&leader);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "cost");
  ASSERT_TRUE(all[0].best);
  EXPECT_EQ(all[0].best->value, 4);
  leader.metrics[1].numbers.emplace_back("Accuracy", 0.7);
  all = evaluator_curves(&leader);
  EXPECT_EQ(all[0].name, "Accuracy");
  EXPECT_TRUE(all[0].higher_is_better);
}

TEST(EvaluatorCurves, ARunThatDivergedHasItsLastFiniteValues) {
  ProcessRecord leader;
  leader.metrics = {line_of("test", 0, 5, 5, {}), line_of("test", 1, 5, INFINITY, {}),
                    line_of("test", 2, 5, 0, {})};
  leader.metrics[2].cost.reset();
  const auto all = evaluator_curves(&leader);
  ASSERT_EQ(all.size(), 1U);
  ASSERT_TRUE(all[0].last);
  EXPECT_EQ(all[0].last->pass, 0U);
  EXPECT_TRUE(evaluator_curves(nullptr).empty());
}

}  // namespace
}  // namespace paddle::cli
