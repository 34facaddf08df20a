// Jobs whose columns are prepared with statistics of their training data: the same file for any
// number of trainers, in every snapshot, and after a resume.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "base/rng.h"
#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

constexpr int kFiles = 5;

constexpr const char* kJob = R"([data]
train = "data/train.csv-*"
format = "csv"
columns = ["age", "pay", "debt", "kind"]

[[data.slot]]
name = "age"
type = "float"
missing = "mean"
missing_indicator = true
normalize = "standard"

[[data.slot]]
name = "pay"
type = "float"
normalize = "min_max"

[[data.slot]]
name = "debt"
type = "float"
missing = 0
bucket = 8

[[data.slot]]
name = "kind"
type = "id"
labels = "learned"

[[layer]]
name = "debts"
type = "embedding"
input = ["debt"]
size = 4
vocabulary = 8

[[layer]]
name = "out"
type = "fc"
input = ["age", "pay", "debts"]
size = 3

[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["out"]
label = "kind"

[optimizer]
learning_rate = 0.01

[train]
passes = 2
batch_size = 20
snapshots_kept = 0
)";

std::string lines_of_file(std::uint64_t file, int lines) {
  Rng rng(file + 1);
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const std::uint64_t kind = rng.below(3);
    const auto age = static_cast<double>(20 * (kind + 1) + rng.below(1000)) * 0.037;
    text += rng.below(8) == 0 ? "" : fmt::format("{:.3f}", age);
    text += fmt::format(",{},{:.2f},kind{}\n", rng.below(1000),
                        static_cast<double>(rng.below(4000)) * 0.01 - 20, kind);
  }
  return text;
}

class StatisticsJob : public testing::Test {
 protected:
  StatisticsJob() {
    cluster_.folder().write("table/job.toml", kJob);
    for (int file = 0; file < kFiles; ++file) {
      cluster_.folder().write(fmt::format("table/data/train.csv-{}", file),
                              lines_of_file(static_cast<std::uint64_t>(file), 100 + 10 * file));
    }
  }

  // The engine in the cluster's folder.
  Outcome paddle(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"/usr/bin/env", "-C", cluster_.folder().path(), PADDLE_PROGRAM});
    Process process(arguments, cluster_.folder() / fmt::format("paddle-{}.txt", runs_++));
    const auto code = process.wait(std::chrono::seconds(60));
    return {code.value_or(-1), process.output()};
  }
  std::string read(const std::string& file) {
    return TemporaryFolder::read(cluster_.folder() / file);
  }
  // The statistics that one process makes of all files.
  std::string statistics_of_all() {
    const Outcome made = paddle({"statistics", "--config=table/job.toml", "--output=whole.json"});
    EXPECT_EQ(made.code, 0) << made.output;
    EXPECT_TRUE(made.says("whole.json: statistics of 600 records")) << made.output;
    return read("whole.json");
  }

  LocalCluster cluster_{3};
  int runs_ = 0;
};

TEST_F(StatisticsJob, PartsMergeIntoTheFileOfOneProcess) {
  const std::string whole = statistics_of_all();
  EXPECT_NE(whole.find(R"("labels":["kind0","kind1","kind2"])"), std::string::npos) << whole;
  std::vector<std::string> merge{"statistics", "--merge", "--output=merged.json"};
  for (int trainer = 0; trainer < 3; ++trainer) {
    const std::string part = fmt::format("part-{}", trainer);
    const Outcome made =
        paddle({"statistics", "--config=table/job.toml", fmt::format("--trainer_id={}", trainer),
                "--num_gradient_servers=3", "--output=" + part});
    ASSERT_EQ(made.code, 0) << made.output;
    if (trainer < 2) merge.push_back(part);
  }
  const Outcome lacking = paddle(merge);
  EXPECT_EQ(lacking.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(lacking.says("the part of trainer 2 of 3 is missing")) << lacking.output;
  merge.insert(merge.end(), {"part-2", "part-1"});
  const Outcome twice = paddle(merge);
  EXPECT_EQ(twice.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(twice.says("part-1 and part-1 are both of trainer 1")) << twice.output;
  merge.pop_back();
  ASSERT_EQ(paddle(merge).code, 0);
  EXPECT_EQ(read("merged.json"), whole);
  merge.back() = "whole.json";
  EXPECT_TRUE(paddle(merge).says("whole.json: it is no part of statistics"));
}

TEST_F(StatisticsJob, OneTrainerMakesThemItself) {
  const std::string whole = statistics_of_all();
  // A missing folder has no snapshot to continue from.
  const std::vector<std::string> train{"train",    "--local",          "--config=table/job.toml",
                                       "--resume", "--save_dir=saved", "--num_passes=1"};
  const Outcome trained = paddle(train);
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_TRUE(trained.says("statistics of 600 training records")) << trained.output;
  EXPECT_EQ(read("saved/pass-00000/model/statistics.json"), whole);
  const Outcome tested =
      paddle({"test", "--snapshot=saved/pass-00000", "--data=table/data/train.csv-1"});
  EXPECT_EQ(tested.code, 0) << tested.output;

  // The parameters belong to the first statistics, whatever the data is now.
  cluster_.folder().write("table/data/train.csv-9", "9999,9999,9999,kind0\n");
  std::vector<std::string> resume = train;
  resume.back() = "--num_passes=2";
  const Outcome resumed = paddle(resume);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(read("saved/pass-00001/model/statistics.json"), whole);
  EXPECT_FALSE(resumed.says("training records")) << resumed.output;
}

// The parameters of a class and of a bucket belong to the labels and edges they were trained with.
TEST_F(StatisticsJob, ANewTrainingTakesTheStatisticsOfItsParameters) {
  const std::string whole = statistics_of_all();
  ASSERT_EQ(
      paddle({"train", "--local", "--config=table/job.toml", "--save_dir=saved", "--num_passes=1"})
          .code,
      0);
  cluster_.folder().write("table/data/train.csv-9", "9999,9999,9999,kind0\n");
  std::vector<std::string> train{"train",
                                 "--local",
                                 "--config=table/job.toml",
                                 "--init_model_path=saved/pass-00000",
                                 "--num_passes=1",
                                 "--save_dir=warm"};
  const Outcome warm = paddle(train);
  ASSERT_EQ(warm.code, 0) << warm.output;
  EXPECT_TRUE(warm.says("statistics are those of saved/pass-00000, to which its parameters belong"))
      << warm.output;
  EXPECT_EQ(read("warm/pass-00000/model/statistics.json"), whole);

  ASSERT_EQ(paddle({"statistics", "--config=table/job.toml", "--output=table/new.json"}).code, 0);
  train.back() = "--save_dir=named";
  train.emplace_back("--set=data.statistics=new.json");
  const Outcome named = paddle(train);
  ASSERT_EQ(named.code, 0) << named.output;
  EXPECT_EQ(read("named/pass-00000/model/statistics.json"), read("table/new.json"));
  EXPECT_NE(read("table/new.json"), whole);

  train.pop_back();
  train.back() = "--save_dir=other";
  cluster_.folder().write("table/data/train.csv-9", "1,1,1,kind0\n1,1,1,a-new-kind\n");
  const Outcome unseen = paddle(train);
  EXPECT_EQ(unseen.code, static_cast<int>(Errc::kData));
  EXPECT_TRUE(
      unseen.says("table/data/train.csv-9:2: column 'kind': 'a-new-kind' is not one of the "
                  "labels kind0, kind1, kind2"))
      << unseen.output;
}

TEST_F(StatisticsJob, ASnapshotOfOtherKeysIsRefused) {
  const std::vector<std::string> train{"train", "--local", "--config=table/job.toml",
                                       "--save_dir=saved", "--num_passes=1"};
  ASSERT_EQ(paddle(train).code, 0);
  std::string job = kJob;
  job.replace(job.find("bucket = 8"), 10, "bucket = 4");
  cluster_.folder().write("table/job.toml", job);
  std::vector<std::string> resume = train;
  resume.back() = "--num_passes=2";
  resume.emplace_back("--resume");
  const Outcome resumed = paddle(resume);
  EXPECT_EQ(resumed.code, static_cast<int>(Errc::kData));
  const std::string why =
      "saved/pass-00000/model/statistics.json: slot 'debt': it was made with bucket = 8, but the "
      "slot has bucket = 4";
  EXPECT_TRUE(resumed.says(why)) << resumed.output;
  EXPECT_TRUE(resumed.says("a training that resumes keeps its statistics: undo the change"))
      << resumed.output;
  EXPECT_FALSE(resumed.says("data.statistics")) << resumed.output;
  const Outcome warm = paddle({"train", "--local", "--config=table/job.toml", "--save_dir=warm",
                               "--init_model_path=saved/pass-00000"});
  EXPECT_EQ(warm.code, static_cast<int>(Errc::kData));
  EXPECT_TRUE(warm.says(why)) << warm.output;
  EXPECT_TRUE(warm.says("start without --init_model_path, or name other statistics"))
      << warm.output;
}

TEST_F(StatisticsJob, PartsOfAnotherSplitAreRefused) {
  for (const std::string trainer : {"0", "1"}) {
    const Outcome made =
        paddle({"statistics", "--config=table/job.toml", "--trainer_id=" + trainer,
                "--num_gradient_servers=2", "--output=part-" + trainer,
                trainer == "0" ? "--set=data.test_fraction=0.25" : "--set=seed=2"});
    ASSERT_EQ(made.code, 0) << made.output;
  }
  const Outcome merged = paddle({"statistics", "--merge", "--output=all.json", "part-0", "part-1"});
  EXPECT_EQ(merged.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(
      merged.says("part-1 was made with no test_fraction, but part-0 with test_fraction = "
                  "0.25, seed = 1"))
      << merged.output;
}

TEST_F(StatisticsJob, AColumnWithoutAMeanIsNamed) {
  for (int file = 0; file < kFiles; ++file)
    cluster_.folder().write(fmt::format("table/data/train.csv-{}", file), ",2,3,kind0\n");
  const Outcome failed = paddle({"train", "--local", "--config=table/job.toml"});
  EXPECT_EQ(failed.code, static_cast<int>(Errc::kData));
  EXPECT_TRUE(
      failed.says("the statistics of the training data: slot 'age': column 'age': no record "
                  "has a number, so that there is no mean"))
      << failed.output;
}

TEST_F(StatisticsJob, SeveralTrainersByHandNeedAFile) {
  const std::vector<std::string> train{"train", "--config=table/job.toml",
                                       "--num_gradient_servers=2"};
  const Outcome refused = paddle(train);
  EXPECT_EQ(refused.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(refused.says("names no [data] statistics, which all 2 trainers must share"))
      << refused.output;
  EXPECT_TRUE(refused.says("hint: paddle statistics --config=table/job.toml --output=FILE"))
      << refused.output;
}

TEST_F(StatisticsJob, AnyNumberOfTrainersHasTheSameFile) {
  const std::string whole = statistics_of_all();
  ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0);
  const Outcome plan = cluster_.run({"plan", "table"});
  EXPECT_EQ(plan.code, 0) << plan.output;
  for (const std::string trainers : {"1", "4"}) {
    const Outcome trained = cluster_.run(
        {"train", "--trainers", trainers, "--pservers", "1", "--name", "with" + trainers, "table"});
    ASSERT_EQ(trained.code, 0) << trained.output;
    EXPECT_TRUE(trained.says("statistics of the training data")) << trained.output;
    EXPECT_EQ(read("output/with" + trainers + "/statistics.json"), whole);
    EXPECT_EQ(read("output/with" + trainers + "/pass-00001/model/statistics.json"), whole);
    EXPECT_FALSE(
        std::filesystem::exists(cluster_.folder() / ("output/with" + trainers + "/.statistics")));
  }

  // Another machine has neither the output folder nor the former data.
  cluster_.folder().write("table/data/train.csv-9", "9999,9999,9999,kind0\n");
  const Outcome resumed = cluster_.run({"train", "--resume", "--name", "with4", "--set",
                                        "train.passes=3", "--output", "elsewhere", "table"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_FALSE(resumed.says("statistics of the training data")) << resumed.output;
  EXPECT_EQ(read("elsewhere/with4/statistics.json"), whole);
  EXPECT_EQ(read("elsewhere/with4/pass-00002/model/statistics.json"), whole);

  for (const std::string from : {"with4:pass-00001", "output/with1/pass-00001"}) {
    const std::string name = from.starts_with("with4") ? "of-job" : "of-folder";
    const Outcome warm =
        cluster_.run({"train", "--from", from, "--name", name, "--trainers", "2", "table"});
    ASSERT_EQ(warm.code, 0) << warm.output;
    EXPECT_TRUE(warm.says("statistics are those of the snapshot of --from")) << warm.output;
    EXPECT_EQ(read("output/" + name + "/pass-00001/model/statistics.json"), whole);
  }
  ASSERT_EQ(cluster_.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster_.nothing_left());
}

TEST_F(StatisticsJob, ABadRecordNamesItsNodeAndLine) {
  cluster_.folder().write("table/data/train.csv-1", "1,2,3,kind0\n1,x,3,kind1\n");
  ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0);
  const Outcome failed =
      cluster_.run({"train", "--trainers", "3", "--pservers", "1", "--name", "bad", "table"});
  EXPECT_EQ(failed.code, static_cast<int>(Errc::kData)) << failed.output;
  EXPECT_TRUE(failed.says("node n-1: statistics of its training data: ")) << failed.output;
  EXPECT_TRUE(failed.says("data/train.csv-1:2: column 'pay': 'x' is not a finite number"))
      << failed.output;
  EXPECT_FALSE(std::filesystem::exists(cluster_.folder() / "output/bad/statistics.json"));
}

}  // namespace
}  // namespace paddle::test
