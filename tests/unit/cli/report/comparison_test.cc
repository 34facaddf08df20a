// Jobs beside each other: settings that differ, best figures, curves, CSV and JSON.
#include "cli/report/comparison.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/compared_jobs.h"

namespace paddle::cli {
namespace {

using Names = std::vector<std::string>;

class ComparisonTest : public testing::Test {
 protected:
  Comparison compared(const std::vector<test::EndedJob>& jobs) {
    std::vector<ComparedJob> all;
    for (const test::EndedJob& job : jobs) {
      test::write_ended_job(folder_, job);
      const auto record = read_job_record(folder_ / job.name, job.name);
      EXPECT_TRUE(record);
      all.push_back(compared_job(*record));
    }
    return compare(std::move(all));
  }
  static std::string table(const Comparison& comparison) {
    return to_text(comparison_table(comparison), 0, false);
  }

  test::TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ComparisonTest, HasTheSettingsThatDifferAndNoOther) {
  const Comparison comparison = compared({{.name = "a"}, {.name = "b", .rate = "0.2"}});
  EXPECT_EQ(comparison.different, Names{"optimizer.learning_rate"});
  const auto& settings = comparison.jobs[1].settings;
  EXPECT_EQ(settings.at("optimizer.learning_rate"), "0.2");
  EXPECT_EQ(settings.at("name"), "x");
  EXPECT_EQ(settings.at("--trainers"), "1");
  EXPECT_EQ(settings.at("--pservers"), "0");
  EXPECT_EQ(settings.at("paddlectl"), "1");
  EXPECT_TRUE(has(table(comparison), "optimizer.learning_rate  0.1             0.2\n"))
      << table(comparison);
  EXPECT_FALSE(has(table(comparison), "--trainers"));
}

TEST_F(ComparisonTest, ComparesTheCommandLineAndTheCommit) {
  JobRecord first, second;
  first.job = "a";
  second.job = "b";
  first.settings.emplace();
  second.settings.emplace();
  second.settings->restarts = 3;
  second.settings->on = "gpu";
  second.settings->gpus = "all";
  second.settings->variables = {"TOKEN"};
  first.run.git = {std::string(40, 'a'), "main", false};
  second.run.git = {std::string(40, 'a'), "main", true};
  ProcessRecord trainer;
  trainer.role = "trainer-0";
  second.processes = {trainer};
  trainer.role = "pserver-0";
  second.processes.push_back(trainer);
  const Comparison comparison = compare({compared_job(first), compared_job(second)});
  EXPECT_EQ(comparison.different, (Names{"--env TOKEN", "--gpus", "--on", "--pservers",
                                         "--restarts", "--trainers", "git commit"}));
  EXPECT_TRUE(has(table(comparison), "aaaaaaaaaaaa (main, with changes)")) << table(comparison);
}

TEST_F(ComparisonTest, MarksTheBestOfEachFigure) {
  const Comparison comparison =
      compared({{.name = "a", .auc = 0.7, .cost = 0.5}, {.name = "b", .auc = 0.8, .cost = 0.75}});
  EXPECT_EQ(comparison.figures, (Names{"auc", "cost"}));
  EXPECT_EQ(best_jobs(comparison, "auc", &EvaluatorCurves::best), Names{"b"});
  EXPECT_EQ(best_jobs(comparison, "cost", &EvaluatorCurves::last), Names{"a"});
  const std::string text = table(comparison);
  EXPECT_TRUE(has(text, "auc best    0.7, pass 2    0.8, pass 2 *\n")) << text;
  EXPECT_TRUE(has(text, "cost last   0.5 *          0.75\n")) << text;
  EXPECT_TRUE(has(text, "examples/s  1000           1000\n")) << text;
  EXPECT_TRUE(has(text, "duration    1m30s          1m30s\n")) << text;
}

TEST_F(ComparisonTest, OfEqualValuesMarksAllAndOfOneJobNone) {
  EXPECT_EQ(best_jobs(compared({{.name = "a"}, {.name = "b"}}), "auc", &EvaluatorCurves::best),
            (Names{"a", "b"}));
  EXPECT_EQ(best_jobs(compared({{.name = "a"}}), "auc", &EvaluatorCurves::best), Names());
}

TEST_F(ComparisonTest, TrainingValuesAreNotBetterThanThoseOfHeldOutData) {
  Comparison comparison = compared({{.name = "a", .auc = 0.9}, {.name = "b", .auc = 0.7}});
  EvaluatorCurves& auc = comparison.jobs[0].evaluators[0];
  ASSERT_EQ(auc.name, "auc");
  auc.training = std::exchange(auc.held_out, {});
  EXPECT_EQ(best_jobs(comparison, "auc", &EvaluatorCurves::best), Names())
      << "only one job was tested";
  EXPECT_TRUE(has(table(comparison), "0.9, pass 2 (training)")) << table(comparison);
}

TEST_F(ComparisonTest, ManyJobsAreRows) {
  std::vector<test::EndedJob> jobs;
  for (int i = 0; i < 5; ++i)
    jobs.push_back({.name = "job-" + std::to_string(i), .rate = "0." + std::to_string(i + 1)});
  const std::string text = table(compared(jobs));
  EXPECT_TRUE(text.starts_with("job    optimizer.learning_rate  state")) << text;
  EXPECT_TRUE(has(text, "\njob-3  0.4 ")) << text;
}

TEST_F(ComparisonTest, DrawsTheCurvesOfTheBestEight) {
  std::vector<test::EndedJob> jobs;
  for (int i = 0; i < 9; ++i)
    jobs.push_back({.name = "job-" + std::to_string(i), .auc = 0.5 + i / 100.0});
  const std::string text = comparison_chart(compared(jobs), 60);
  EXPECT_TRUE(text.starts_with("auc, on held-out data, by batches, the best 8 of 9\n")) << text;
  EXPECT_TRUE(has(text, "  a  job-8\n")) << "the best is the first: " << text;
  EXPECT_TRUE(has(text, "  h  job-1\n")) << text;
  EXPECT_FALSE(has(text, "job-0")) << text;
  EXPECT_TRUE(has(text, "0.58 |")) << text;
  Comparison none;
  EXPECT_EQ(comparison_chart(none, 60), "");
}

TEST_F(ComparisonTest, IsATableForSpreadsheets) {
  const std::string text =
      comparison_csv(compared({{.name = "a", .tags = {"x", "y"}, .note = "say \"hi\", twice"},
                               {.name = "b", .rate = "-0.2", .note = "=HYPERLINK(1)"}}));
  EXPECT_EQ(text,
            "job,state,tags,note,optimizer.learning_rate,auc best,auc best pass,auc last,cost "
            "best,cost best pass,cost last,examples/s,duration in s\r\n"
            "a,done,x y,\"say \"\"hi\"\", twice\",0.1,0.75,2,0.75,0.5,2,0.5,1000,90\r\n"
            "b,done,,\"'=HYPERLINK(1)\",-0.2,0.75,2,0.75,0.5,2,0.5,1000,90\r\n");
}

TEST_F(ComparisonTest, IsJsonWithAllSettingsAndCurves) {
  const Comparison comparison =
      compared({{.name = "a", .tags = {"x"}}, {.name = "b", .rate = "2"}});
  const std::string text = comparison_json(comparison, "/out").text();
  for (const char* const part :
       {R"({"jobs": [{"job": "a", "state": "done", "tags": ["x"], "note": "", "git": null, )",
        R"("optimizer.learning_rate": "0.1")", R"("held_out": [[10, 0.5], [20, 0.75]])",
        R"("examples_per_second": 1000, "started_unix_ms": 1700000000000, "duration_ms": 90000, )",
        R"("metrics": "node_0/metrics.jsonl", "folder": "/out/a"})",
        R"("different": ["optimizer.learning_rate"], "figures": ["auc", "cost"], )",
        R"("best": {"auc": {"best": ["a", "b"], "last": ["a", "b"]}, )"}) {
    EXPECT_TRUE(has(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(has(comparison_json(comparison).text(), "folder"));
}

TEST_F(ComparisonTest, ShowsNothingThatCouldPaintATerminal) {
  Comparison comparison = compared({{.name = "a"}, {.name = "b"}});
  for (ComparedJob& job : comparison.jobs) {
    job.job += "\x1b[2J";
    job.run.note = "\x1b[8m";
    job.run.git.branch = "\x1b[31m";
    job.settings["\x1b[5m"] = job.job;
    job.state = "\x1b[6n";
    job.evaluators[0].name = "\x1b[1m";
  }
  comparison = compare(std::move(comparison.jobs));
  for (const std::string& text : {table(comparison), comparison_chart(comparison, 60),
                                  comparison_csv(comparison), comparison_json(comparison).text()}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_NE(text.find("x1b[1m"), std::string::npos) << text;
  }
}

TEST_F(ComparisonTest, AJobWithoutMetricsHasNoFigures) {
  Comparison comparison = compared({{.name = "a"}, {.name = "b"}});
  folder_.write("b/node_0/metrics.jsonl", "");
  folder_.write(
      "b/processes.jsonl",
      "{\"role\": \"trainer-0\", \"started_unix_ms\": 5, \"log\": \"node_0/train.log\"}\n");
  const ComparedJob running = compared_job(*read_job_record(folder_ / "b", "b"));
  EXPECT_EQ(running.state, "running");
  EXPECT_EQ(running.duration_ms, 0);
  EXPECT_EQ(running.metrics, "");
  EXPECT_TRUE(running.evaluators.empty());
  comparison = compare({comparison.jobs[0], running});
  EXPECT_TRUE(has(table(comparison), "auc best    0.75, pass 2  -\n")) << table(comparison);
}

}  // namespace
}  // namespace paddle::cli
