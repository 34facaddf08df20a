#include "cli/watch/metrics_line.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(Metrics, ReadsWhatTheTrainerWrites) {
  const auto train =
      parse_metrics(R"({"kind":"train","pass":1,"batch":100,"samples":3200,"cost":6.5,)"
                    R"("examples_per_second":5000,"unix_ms":1})");
  ASSERT_TRUE(train);
  EXPECT_EQ(train->batch, 100U);
  const auto test = parse_metrics(R"({"kind":"test","pass":0,"batch":9,"samples":10,"cost":5.0,)"
                                  R"("classification_error":0.25,"perplexity":148.41})");
  ASSERT_TRUE(test);
  EXPECT_EQ(describe(*test),
            "pass 1 (pass-00000): held-out cost 5, classification_error 0.25, perplexity 148.41 "
            "(10 samples)");
  EXPECT_TRUE(describe(*test, 3).starts_with("pass 1 of 3 (pass-00000): held-out cost 5, "));
  const auto without = parse_metrics(R"({"kind":"pass","pass":0,"samples":400})");
  ASSERT_TRUE(without) << "a program of one's own may give no cost";
  EXPECT_EQ(describe(*without), "pass 1 (pass-00000): 400 training samples");
  const auto diverged = parse_metrics(R"({"kind":"train","pass":1,"batch":7,"cost":null})");
  ASSERT_TRUE(diverged) << "a cost that is no number is news, not noise";
  EXPECT_FALSE(diverged->cost);
  EXPECT_FALSE(parse_metrics("garbage"));
}

TEST(Metrics, OfAProgramOfOnesOwnKeepItsLinesWhenItDiverges) {
  const auto nan = parse_metrics(R"({"kind": "train", "pass": 0, "batch": 4, "cost": NaN})");
  ASSERT_TRUE(nan);
  EXPECT_EQ(nan->batch, 4U);
  EXPECT_FALSE(nan->cost);
  EXPECT_TRUE(nan->cost_is_null);
  EXPECT_EQ(describe(*nan), "pass 1 (pass-00000): training cost nan (0 samples)");
  const auto auc = parse_metrics(R"({"kind":"test","batch":5,"cost":0.5,"auc":-Infinity})");
  ASSERT_TRUE(auc);
  EXPECT_FALSE(auc->cost_is_null);
  EXPECT_FALSE(auc->number("auc"));
  EXPECT_FALSE(parse_metrics(R"({"kind":"train","batch":4})")->cost_is_null);
}

TEST(Metrics, ALineSaysForWhichFiguresHigherIsBetter) {
  const auto named = parse_metrics(R"({"kind":"test","pass":0,"clicks":0.7,"f1_loss":2,)"
                                   R"("higher_is_better":"views clicks"})");
  ASSERT_TRUE(named);
  EXPECT_TRUE(named->is_better_when_higher("clicks"));
  EXPECT_TRUE(named->is_better_when_higher("views"));
  EXPECT_FALSE(named->is_better_when_higher("click"));
  EXPECT_FALSE(named->is_better_when_higher("f1_loss")) << "its name does not count";
  const auto none = parse_metrics(R"({"kind":"test","auc":0.5,"higher_is_better":""})");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->is_better_when_higher("auc"));
  const auto unnamed = parse_metrics(R"({"kind":"test","pass":0,"clicks":0.7})");
  ASSERT_TRUE(unnamed);
  EXPECT_TRUE(unnamed->is_better_when_higher("val_Accuracy"));
  EXPECT_FALSE(unnamed->is_better_when_higher("clicks"));
  EXPECT_FALSE(unnamed->is_better_when_higher("cost"));
}

TEST(Metrics, PathFollowsTheLog) {
  EXPECT_EQ(metrics_path("jobs/train/node_0/train-1.log"), "jobs/train/node_0/metrics-1.jsonl");
  EXPECT_EQ(metrics_path("jobs/x/node_0/server.log"), "jobs/x/node_0/server-metrics.jsonl");
}

}  // namespace
}  // namespace paddle::cli
