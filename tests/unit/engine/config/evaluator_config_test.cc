// Evaluators of job.toml: their keys, their names and how many there may be.
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

TEST_F(JobConfigTest, ReadsEvaluators) {
  const auto job = read_job(edited("[optimizer]",
                                   "[[evaluator]]\ntype = \"classification_error\"\n"
                                   "input = \"output\"\nlabel = \"next\"\n"
                                   "[[evaluator]]\nname = \"ppl\"\ntype = \"perplexity\"\n"
                                   "input = \"cost\"\n[optimizer]"));
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->evaluators.size(), 2U);
  EXPECT_EQ(job->evaluators[0].name, "classification_error");
  EXPECT_EQ(job->evaluators[0].inputs, std::vector<std::string>{"output"});
  EXPECT_EQ(job->evaluators[1].name, "ppl");
}

TEST_F(JobConfigTest, NamesMistakesOfEvaluators) {
  const auto wrong = [&](const std::string& keys) {
    return mistake("[optimizer]", "[[evaluator]]\n" + keys + "\n[optimizer]");
  };
  EXPECT_EQ(wrong("type = \"auk\"\ninput = \"output\"\nlabel = \"next\""),
            "job.toml:26:8: 'type' is 'auk', but must be one of 'auc', 'calibration', "
            "'classification_error', 'gauc', 'perplexity', 'pr_auc', 'precision_recall', 'rmse'; "
            "did you mean 'auc'?");
  EXPECT_EQ(wrong("type = \"auc\"\ninput = \"none\"\nlabel = \"next\""),
            "job.toml:27:9: 'none' is not a layer");
  EXPECT_EQ(wrong("name = \"cost\"\ntype = \"auc\"\ninput = \"output\"\nlabel = \"next\""),
            "job.toml:26:8: the name 'cost' is reserved in metrics.jsonl");
  for (const std::string name : {"first_cost", "why", "sparse_lags", "higher_is_better",
                                 "one_is_best", "total_auc", "curve:roc:auc"})
    EXPECT_EQ(
        wrong("name = \"" + name + "\"\ntype = \"auc\"\ninput = \"output\"\nlabel = \"next\""),
        "job.toml:26:8: the name '" + name + "' is reserved in metrics.jsonl");
  EXPECT_EQ(wrong("type = \"auc\"\ninput = \"output\""), "job.toml:25:1: auc has no 'label'");
  EXPECT_EQ(wrong("type = \"gauc\"\ninput = \"output\"\nlabel = \"next\""),
            "job.toml:25:1: gauc has no 'group'");
  EXPECT_EQ(wrong("type = \"gauc\"\ninput = \"output\"\nlabel = \"next\"\ngroup = \"user\""),
            "job.toml:29:9: 'user' is not a data slot");
  EXPECT_EQ(wrong("type = \"auc\"\ninput = \"output\"\nlabel = \"next\"\ngroup = \"next\""),
            "job.toml:29:9: 'group' is for evaluators of type gauc");
}

TEST_F(JobConfigTest, EvaluatorsHaveNamesOfTheirOwnAndAreFew) {
  const auto tables = [](int count, bool named) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "[[evaluator]]\ntype = \"auc\"\ninput = \"output\"\nlabel = \"next\"\n";
      if (named) text += "name = \"auc" + std::to_string(i) + "\"\n";
    }
    return text + "[optimizer]";
  };
  EXPECT_NE(mistake("[optimizer]", tables(2, false)).find("the name 'auc' is already taken"),
            std::string::npos);
  EXPECT_EQ(mistake("[optimizer]", tables(16, true)), "none");
  EXPECT_NE(mistake("[optimizer]", tables(17, true)).find("there are more than 16 evaluators"),
            std::string::npos);
}

}  // namespace
}  // namespace paddle::config
