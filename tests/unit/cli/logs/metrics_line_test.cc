#include "cli/logs/metrics_line.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(Metrics, ReadsWhatTheTrainerWrites) {
  const auto train =
      parse_metrics(R"({"kind":"train","pass":1,"batch":100,"samples":3200,"cost":6.5,)"
                    R"("examples_per_second":5000,"unix_ms":1})");
  ASSERT_TRUE(train);
  EXPECT_EQ(describe(*train),
            "trainer-0: pass 1 batch 100  samples 3200  cost 6.5000  5000 examples/s");
  const auto pass = parse_metrics(R"({"kind":"pass","pass":1,"batch":110,"samples":9,"cost":6})");
  ASSERT_TRUE(pass);
  EXPECT_EQ(describe(*pass), "trainer-0: pass 1 batch 110  samples 9  cost 6.0000");
  const auto test = parse_metrics(R"({"kind":"test","pass":0,"batch":9,"samples":10,"cost":5.0,)"
                                  R"("classification_error":0.25,"perplexity":148.41})");
  ASSERT_TRUE(test);
  EXPECT_EQ(
      describe(*test),
      "pass 0: held-out cost 5.0000, classification_error 0.25, perplexity 148.41 (10 samples)");
  const auto diverged = parse_metrics(R"({"kind":"train","pass":1,"batch":7,"cost":null})");
  ASSERT_TRUE(diverged) << "a cost that is no number is news, not noise";
  EXPECT_FALSE(diverged->cost);
  EXPECT_EQ(describe(*diverged), "trainer-0: pass 1 batch 7  samples 0  cost nan");
  EXPECT_FALSE(parse_metrics("garbage"));
}

TEST(Metrics, PathFollowsTheLog) {
  EXPECT_EQ(metrics_path("jobs/train/node_0/train-1.log"), "jobs/train/node_0/metrics-1.jsonl");
  EXPECT_EQ(metrics_path("jobs/x/node_0/server.log"), "jobs/x/node_0/server-metrics.jsonl");
}

}  // namespace
}  // namespace paddle::cli
