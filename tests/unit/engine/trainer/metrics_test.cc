#include "engine/trainer/metrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/small_disk.h"
#include "tests/support/temporary_folder.h"

namespace paddle::trainer {
namespace {

TEST(Progress, LinesHaveTheOldShape) {
  const Reading pass{3200, 6.1, {{"classification_error", 0.93}, {"perplexity", 445.86}}};
  const Reading current{100, 5.9, {{"classification_error", 0.9}, {"perplexity", 365.04}}};
  EXPECT_EQ(progress_line(0, 100, pass, current),
            "Pass=0 Batch=100 samples=3200 AvgCost=6.1 CurrentCost=5.9 "
            "Eval: classification_error=0.93 perplexity=445.86 "
            "CurrentEval: classification_error=0.9 perplexity=365.04");
  EXPECT_EQ(progress_line(2, 9, pass, {}),
            "Pass=2 Batch=9 samples=3200 AvgCost=6.1 Eval: classification_error=0.93 "
            "perplexity=445.86");
  EXPECT_EQ(test_line({10, 2, {{"auc", 0.75}}}), " Test samples=10 cost=2 Eval: auc=0.75");
  const Reading undefined{10, 2, {{"auc", std::nan(""), true, "all labels are of one class"}}};
  EXPECT_EQ(test_line(undefined), " Test samples=10 cost=2 Eval: auc=undefined");
  EXPECT_EQ(undefined_note(undefined), "auc is undefined: all labels are of one class");
  EXPECT_EQ(undefined_note({10, 2, {{"auc", 0.75}}}), "");
  EXPECT_EQ(totals_line(1, {10, 2, {{"auc", 0.75}}}, 3),
            "Pass=1 over all trainers: samples=10 AvgCost=2 discarded=3 Eval: auc=0.75");
  EXPECT_EQ(totals_fields({10, 2, {{"auc", 0.75}}}).text(),
            R"({"total_samples":10,"total_cost":2,"total_auc":0.75})");
}

TEST(Progress, FieldsOfADivergedCostAreJson) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(totals_fields({10, nan, {{"auc", nan}}}).text(),
            R"({"total_samples":10,"total_cost":null,"total_auc":null})");
}

TEST(Progress, NoEvaluatorsLeaveNoTrace) {
  EXPECT_EQ(progress_line(0, 0, {}, {}), "Pass=0 Batch=0 samples=0 AvgCost=0");
}

TEST(MetricsFile, WritesOneObjectALine) {
  const test::TemporaryFolder folder;
  auto file = MetricsFile::open(folder / "metrics.jsonl");
  ASSERT_TRUE(file);
  file->write("train", 1, 20, {4, 0.5, {{"classification_error", 0.25}}}, JsonObject().add("x", 1));
  const double infinite = std::numeric_limits<double>::infinity();
  file->write("pass", 1, 20, {4, infinite, {{"classification_error", 0.25}}});
  const std::string text = test::TemporaryFolder::read(folder / "metrics.jsonl");
  EXPECT_TRUE(
      text.starts_with(R"({"kind":"train","pass":1,"batch":20,"samples":4,"cost":0.5,)"
                       R"("classification_error":0.25,"x":1,"higher_is_better":"","unix_ms":)"))
      << text;
  EXPECT_NE(
      text.find(R"("cost":null,"classification_error":0.25,"higher_is_better":"","unix_ms":)"),
      std::string::npos)
      << text;
  file->write("pserver", JsonObject().add("port", 7164));
  EXPECT_NE(test::TemporaryFolder::read(folder / "metrics.jsonl")
                .find("\n{\"kind\":\"pserver\",\"port\":7164,\"unix_ms\":"),
            std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// Curves are for tests: a log point has only the figure.
TEST(MetricsFile, ATestHasTheCurvesOfItsEvaluators) {
  const test::TemporaryFolder folder;
  auto file = MetricsFile::open(folder / "metrics.jsonl");
  ASSERT_TRUE(file);
  const nn::Value auc{.name = "auc",
                      .value = 0.75,
                      .higher_is_better = true,
                      .curve = {"roc", {{0, 0}, {0.25, 1.0 / 3}, {1, 1}}}};
  const nn::Value calibration{.name = "calibration", .value = 1.5, .one_is_best = true};
  file->write("test", 1, 20, {4, 0.5, {auc, calibration}});
  file->write("train", 1, 20, {4, 0.5, {auc, calibration}});
  const std::string text = test::TemporaryFolder::read(folder / "metrics.jsonl");
  const std::string test = text.substr(0, text.find('\n'));
  EXPECT_NE(test.find(R"("auc":0.75,"calibration":1.5,)"
                      R"("curve:roc:auc":[0,0,0.25,0.333333333,1,1],)"
                      R"("higher_is_better":"auc","one_is_best":"calibration")"),
            std::string::npos)
      << test;
  EXPECT_EQ(text.find("curve", test.size()), std::string::npos);
}

// A limit on the size of files stands for a full disk.
TEST(MetricsFile, ADiskThatIsReadOnlyCostsLinesAndNotTheJob) {
  const test::TemporaryFolder folder;
  const std::string disk = folder.path();
  const bool can_mount = test::on_small_disk(disk, "256k", [&] {
    ASSERT_EQ(::mount("none", disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    testing::internal::CaptureStderr();
    auto metrics = MetricsFile::open(disk + "/metrics.jsonl");
    const std::string log = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(metrics) << metrics.error().message;
    metrics->write("train", JsonObject());
    EXPECT_NE(log.find("Read-only file system; no metrics are written"), std::string::npos) << log;
  });
  if (!can_mount) GTEST_SKIP() << "nothing can be mounted here";
}

TEST(MetricsFile, AFullDiskLosesWholeLinesAndIsSaidOnce) {
  const test::TemporaryFolder folder;
  auto file = MetricsFile::open(folder / "metrics.jsonl");
  ASSERT_TRUE(file);
  const auto write = [&](int number) { file->write("test", JsonObject().add("n", number)); };
  for (int i = 0; i < 30; ++i) write(1);  // the limit is for stderr too
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = test::TemporaryFolder::read(folder / "metrics.jsonl").size() + 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  testing::internal::CaptureStderr();
  write(2);
  write(3);
  const std::string said = testing::internal::GetCapturedStderr();
  ::setrlimit(RLIMIT_FSIZE, &before);
  write(4);
  EXPECT_EQ(said.find("metrics.jsonl: "), said.rfind("metrics.jsonl: ")) << said;
  EXPECT_NE(said.find("metrics.jsonl: write: File too large"), std::string::npos) << said;
  std::istringstream lines(test::TemporaryFolder::read(folder / "metrics.jsonl"));
  std::string line;
  std::vector<std::string> whole;
  while (std::getline(lines, line)) {
    if (line.ends_with('}')) whole.push_back(line.substr(0, 21));
  }
  ASSERT_EQ(whole.size(), 31U);
  EXPECT_EQ(whole[29], R"({"kind":"test","n":1,)");
  EXPECT_EQ(whole[30], R"({"kind":"test","n":4,)");
}

}  // namespace
}  // namespace paddle::trainer
