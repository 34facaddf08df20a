#include "engine/trainer/early_stop.h"

#include <cmath>

#include <gtest/gtest.h>

namespace paddle::trainer {
namespace {

const std::vector<nn::Value> kFigures{{"cost", 0}, {"auc", 0, true}, {"error", 0}};

config::TrainConfig rules(const std::string& best, std::uint32_t worse,
                          const std::string& when = "") {
  config::TrainConfig train;
  train.best = best;
  train.best_location = "job.toml:7";
  train.stop_after_worse = worse;
  if (!when.empty()) train.stop_when = config::parse_stop_when(when);
  train.stop_when_location = "job.toml:9";
  return train;
}

PassTest test(std::uint32_t pass, double cost, double auc) {
  return {pass, {{"cost", cost}, {"auc", auc}, {"error", 1 - auc}}};
}

bool any(std::uint32_t) {
  return true;
}

// The pass after which a job of such tests ends; "" for none.
std::string end_of(const config::TrainConfig& train, const std::vector<double>& aucs) {
  EarlyStop stop(train, kFigures);
  for (std::uint32_t pass = 0; pass < aucs.size(); ++pass) {
    stop.add(test(pass, 1 - aucs[pass], aucs[pass]));
    if (stop.judge() != EndReason::kNone) return std::to_string(pass);
  }
  return "";
}

TEST(EarlyStop, EndsAfterSoManyWorsePassesInARow) {
  for (const char* figure : {"auc", "cost", "error"}) {
    EXPECT_EQ(end_of(rules(figure, 2), {0.5, 0.7, 0.6, 0.65}), "3") << figure;
    EXPECT_EQ(end_of(rules(figure, 2), {0.5, 0.7, 0.6, 0.71, 0.7, 0.69}), "5") << figure;
    EXPECT_EQ(end_of(rules(figure, 1), {0.5, 0.4}), "1") << figure;
    EXPECT_EQ(end_of(rules(figure, 2), {0.5, 0.6, 0.7, 0.8}), "") << figure;
    EXPECT_EQ(end_of(rules(figure, 0), {0.5, 0.4, 0.3, 0.2}), "") << figure;
  }
}

TEST(EarlyStop, WhereOneIsBestTheNearestToOneIsTheBest) {
  std::vector<nn::Value> figures{{"cost", 0}, {"calibration", 0}};
  figures[1].one_is_best = true;
  EarlyStop stop(rules("calibration", 2), figures);
  const auto add = [&](std::uint32_t pass, double value) {
    stop.add({pass, {{"cost", 1}, {"calibration", value}}});
  };
  for (std::uint32_t pass = 0; const double value : {0.5, 1.3, 0.9, 1.2, 0.7}) add(pass++, value);
  EXPECT_EQ(stop.best(any), 2U);
  EXPECT_EQ(stop.judge(), EndReason::kWorse);
}

TEST(EarlyStop, APassAsGoodAsTheBestIsNotWorse) {
  EXPECT_EQ(end_of(rules("auc", 2), {0.7, 0.6, 0.7, 0.6, 0.7, 0.6}), "");
}

TEST(EarlyStop, NoNumberIsWorseThanAny) {
  const double nan = std::nan("");
  EXPECT_EQ(end_of(rules("auc", 2), {0.7, nan, nan}), "2");
  EXPECT_EQ(end_of(rules("auc", 2), {nan, nan, nan, 0.5}), "") << "than what?";
  EXPECT_EQ(end_of(rules("", 0, "auc >= 0.1"), {nan, nan}), "");
}

TEST(EarlyStop, EndsWhenAFigureIsReached) {
  EXPECT_EQ(end_of(rules("", 0, "auc >= 0.7"), {0.5, 0.69, 0.7}), "2");
  EXPECT_EQ(end_of(rules("", 0, "cost < 0.3"), {0.5, 0.7, 0.71}), "2");
  EXPECT_EQ(end_of(rules("auc", 5, "auc >= 0.7"), {0.8}), "0");
}

TEST(EarlyStop, TheBestPassIsTheEarliestOfEqualsAmongThoseThatAreThere) {
  EarlyStop stop(rules("auc", 0), kFigures);
  EXPECT_EQ(stop.best(any), std::nullopt);
  stop.add(test(0, 0.1, std::nan("")));
  EXPECT_EQ(stop.best(any), std::nullopt);
  stop.add(test(1, 0.1, 0.7));
  stop.add(test(2, 0.1, 0.8));
  stop.add(test(3, 0.1, 0.8));
  EXPECT_EQ(stop.best(any), 2U);
  EXPECT_EQ(stop.best([](std::uint32_t pass) { return pass != 2; }), 3U);
  EXPECT_EQ(stop.best([](std::uint32_t pass) { return pass < 2; }), 1U);
  EXPECT_EQ(stop.best([](std::uint32_t) { return false; }), std::nullopt);
  EXPECT_EQ(EarlyStop(rules("", 0, "auc > 1"), kFigures).best(any), std::nullopt);
}

// A job that goes on from its snapshots has the tests of earlier runs.
TEST(EarlyStop, CountsOnFromTestsThatItIsGiven) {
  EarlyStop stop(rules("auc", 3), kFigures);
  for (const auto& [pass, auc] : {std::pair(0U, 0.7), {1U, 0.6}, {2U, 0.6}, {3U, 0.6}})
    stop.add(test(pass, 0, auc));
  EXPECT_EQ(stop.judge(), EndReason::kWorse);
  EXPECT_TRUE(stop.has_test(3));
  stop.add(test(2, 0, 0.65));  // trained again
  EXPECT_FALSE(stop.has_test(3));
  EXPECT_EQ(stop.tests().size(), 3U);
  EXPECT_EQ(stop.judge(), EndReason::kNone);
  stop.add(test(3, 0, 0.6));
  EXPECT_EQ(stop.judge(), EndReason::kWorse);
}

TEST(EarlyStop, SaysWhy) {
  EarlyStop stop(rules("auc", 2, "auc >= 0.9"), kFigures);
  EXPECT_EQ(stop.explain(EndReason::kWorse),
            "auc was worse than the best one in the last 2 passes (train.stop_after_worse)");
  stop.add(test(4, 0, 0.8125));
  stop.add(test(5, 0, 0.75));
  EXPECT_EQ(stop.explain(EndReason::kWorse),
            "auc was worse than 0.8125, that of pass 5 (pass-00004), in the last 2 passes "
            "(train.stop_after_worse)");
  EXPECT_EQ(stop.explain(EndReason::kReached), "train.stop_when = 'auc >= 0.9' is fulfilled");
  EXPECT_EQ(EarlyStop(rules("auc", 1, ""), kFigures).explain(EndReason::kWorse),
            "auc was worse than the best one in the last pass (train.stop_after_worse)");
}

TEST(EarlyStop, AnUnknownFigureIsRefusedWithThoseThatThereAre) {
  EXPECT_TRUE(EarlyStop::check(rules("", 0), kFigures));
  EXPECT_TRUE(EarlyStop::check(rules("auc", 2, "cost < 1"), kFigures));
  const Status best = EarlyStop::check(rules("acu", 2), kFigures);
  ASSERT_FALSE(best);
  EXPECT_EQ(best.error().code, Errc::kUsage);
  EXPECT_EQ(best.error().message, "job.toml:7: [train] best: tests of this job have no 'acu'");
  EXPECT_EQ(best.error().hint, "they have cost, auc, error; [[evaluator]] adds others");
  const Status when = EarlyStop::check(rules("auc", 2, "f1 > 0.5"), kFigures);
  ASSERT_FALSE(when);
  EXPECT_EQ(when.error().message, "job.toml:9: [train] stop_when: tests of this job have no 'f1'");
}

}  // namespace
}  // namespace paddle::trainer
