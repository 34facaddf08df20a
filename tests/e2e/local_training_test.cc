// `paddle train` and `paddle pserver` as real processes on loopback.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"
#include "tests/support/small_disk.h"

namespace paddle::test {
namespace {

// The names of files that differ, or are in one only.
std::vector<std::string> differences(const std::map<std::string, std::string>& a,
                                     const std::map<std::string, std::string>& b) {
  std::vector<std::string> names;
  for (const auto& [name, content] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second != content) names.push_back(name);
  }
  for (const auto& [name, content] : b) {
    if (!a.contains(name)) names.push_back(name);
  }
  return names;
}

// The numbers that follow `"key":` in the lines of one kind.
std::vector<double> values(const std::string& metrics, const std::string& kind,
                           const std::string& key) {
  std::vector<double> found;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("\"" + key + "\":");
    if (line.starts_with("{\"kind\":\"" + kind + "\"") && at != std::string::npos) {
      found.push_back(std::stod(line.substr(at + key.size() + 3)));
    }
  }
  return found;
}

class Parity : public testing::TestWithParam<const char*> {};

TEST_P(Parity, OnePserverGivesTheSameBitsAsLocalTraining) {
  Job job;
  job.write_ngram(1, 200);
  const std::vector<std::string> flags{std::string("--set=optimizer.method=") + GetParam()};
  ASSERT_TRUE(job.run_local("local", flags));
  ASSERT_TRUE(job.run("remote", {}, flags));
  const auto local = job.snapshot("local", 0);
  EXPECT_TRUE(local.contains("_output.w0"));
  EXPECT_EQ(differences(local, job.snapshot("remote", 0)), std::vector<std::string>());
  // Shards only move parameters about.
  ASSERT_TRUE(job.run("many", {.pservers = 2, .ports_num = 2}, flags));
  EXPECT_EQ(job.snapshot("many", 0).at("_output.w0"), local.at("_output.w0"));
}
INSTANTIATE_TEST_SUITE_P(Optimizers, Parity,
                         testing::Values("sgd", "momentum", "torch_momentum", "adagrad",
                                         "decayed_adagrad", "adadelta", "rmsprop", "adam", "adamw",
                                         "adamax", "ftrl"));

// The queue decides how old values are, not the threads.
class PushesFromAThread : public testing::TestWithParam<const char*> {};

TEST_P(PushesFromAThread, OfOneTrainerGiveTheSameBitsWhereverItsShardsAre) {
  Job job;
  job.write_ngram(1, 200);
  const std::string strategy = GetParam();
  std::vector<std::string> flags{"--set=strategy.dense=" + strategy,
                                 "--set=strategy.sparse=" + strategy};
  if (strategy == "half_async") {
    flags.insert(flags.end(),
                 std::initializer_list<std::string>{"--set=strategy.max_merge=2",
                                                    "--set=strategy.send_queue_size=2"});
  } else {
    flags.emplace_back("--set=strategy.update_frequency=3");
  }
  ASSERT_TRUE(job.run_local("local", flags));
  ASSERT_TRUE(job.run("remote", {}, flags));
  const auto local = job.snapshot("local", 0);
  EXPECT_EQ(differences(local, job.snapshot("remote", 0)), std::vector<std::string>());
  const std::string metrics = job.metrics("remote", 0);
  EXPECT_GT(values(metrics, "pass", "dense_merged")[0], 0.0);
  EXPECT_EQ(values(metrics, "pass", "dense_merged"), values(metrics, "pass", "sparse_merged"));
  ASSERT_TRUE(job.run_local("sync", {}));
  EXPECT_NE(job.snapshot("sync", 0).at("_output.w0"), local.at("_output.w0"));
}
INSTANTIATE_TEST_SUITE_P(Strategies, PushesFromAThread, testing::Values("half_async", "geo"));

TEST(LocalTraining, LearnsAndReports) {
  Job job;
  job.write_ngram(1, 1000);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=3", "--trainer_count=2"}));
  const std::string log = job.output("job", 0);
  EXPECT_NE(log.find("Pass=0 Batch=10 samples=160 AvgCost="), std::string::npos) << log;
  EXPECT_NE(log.find(" Test samples=300 cost="), std::string::npos) << log;
  const std::vector<double> perplexity = values(job.metrics("job", 0), "test", "perplexity");
  ASSERT_EQ(perplexity.size(), 3U);
  EXPECT_LT(perplexity[1], perplexity[0]);
  // Knowing the most likely successor three times of four gives about 7; knowing nothing gives 43.
  EXPECT_LT(perplexity[2], 20.0);
  EXPECT_EQ(values(job.metrics("job", 0), "pass", "total_samples"),
            (std::vector<double>{6000, 6000, 6000}));
  job.snapshot("job", 2);
}

TEST(LocalTraining, NoPassesTestTheModelTheyStartFrom) {
  Job job;
  job.write_ngram(1, 300);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=2"}));
  ASSERT_TRUE(job.run_local(
      "again", {"--num_passes=0", "--init_model_path=" + job.save_dir("job") + "/pass-00001"}));
  const auto trained = values(job.metrics("job", 0), "test", "cost");
  ASSERT_EQ(trained.size(), 2U);
  EXPECT_EQ(values(job.metrics("again", 0), "test", "cost"), std::vector<double>{trained[1]});
  EXPECT_TRUE(values(job.metrics("again", 0), "pass", "cost").empty());
}

TEST(LocalTraining, ALearningRateOfZeroLearnsNothing) {
  Job job;
  job.write_ngram(1, 100);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=2", "--set=optimizer.learning_rate=0"}));
  EXPECT_EQ(job.snapshot("job", 0).at("_output.w0"), job.snapshot("job", 1).at("_output.w0"));
}

TEST(LocalTraining, ADivergingRunSaysSoAndStopsWhenAsked) {
  Job job;
  job.write_ngram(1, 300);
  const std::vector<std::string> flags{"--set=optimizer.method=sgd", "--num_passes=2",
                                       "--set=optimizer.learning_rate=4e3"};
  ASSERT_TRUE(job.run_local("warned", flags));
  const std::string log = job.output("warned", 0);
  const std::size_t first = log.find("training diverges: the cost is ");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("training diverges", first + 1), std::string::npos) << "said twice";
  auto stopping = flags;
  stopping.emplace_back("--set=train.on_divergence=stop");
  Process stopped = job.start_local("stopped", stopping);
  EXPECT_EQ(stopped.wait(), 1);
  const std::string end = stopped.output();
  EXPECT_NE(end.find("lower optimizer.learning_rate"), std::string::npos) << end;
  EXPECT_EQ(values(job.metrics("stopped", 0), "test", "cost").size(), 0U);
}

TEST(LocalTraining, EveryLineOfMetricsTellsThePassesTheFirstCostAndTheTimeSpentWaiting) {
  Job job;
  job.write_ngram(1, 300);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=2", "--set=train.log_period=1"}));
  for (const char* const kind : {"train", "pass"}) {
    const auto passes = values(job.metrics("job", 0), kind, "passes");
    const auto first_costs = values(job.metrics("job", 0), kind, "first_cost");
    ASSERT_FALSE(passes.empty()) << kind;
    EXPECT_EQ(passes, std::vector<double>(passes.size(), 2)) << kind;
    ASSERT_EQ(first_costs.size(), passes.size()) << kind;
    EXPECT_EQ(first_costs.front(), values(job.metrics("job", 0), "train", "cost").front());
    EXPECT_EQ(first_costs.front(), first_costs.back()) << kind;
    EXPECT_EQ(values(job.metrics("job", 0), kind, "examples_per_busy_second").size(), passes.size())
        << kind;
  }
}

TEST(LocalTraining, MetricsTellHowMuchOfThePassIsDone) {
  Job job;
  job.write_ngram(1, 1000);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=2", "--set=train.log_period=50",
                                    "--set=train.shuffle_records=100000"}));
  const auto done = values(job.metrics("job", 0), "train", "pass_done");
  ASSERT_GE(done.size(), 4U);
  EXPECT_EQ(values(job.metrics("job", 0), "train", "passes"), std::vector<double>(done.size(), 2));
  // The second pass knows the number of batches: 6000 examples in batches of 16.
  const auto batches = values(job.metrics("job", 0), "train", "batch");
  EXPECT_NEAR(done.back(), batches.back() / 375, 1e-9);
  // The first pass has read all records before the first batch, and counts those that it trained.
  EXPECT_NEAR(done.front(), 50.0 / 375, 1e-9);
}

TEST(LocalTraining, TwoSyncRunsOfFourTrainersGiveTheSameBits) {
  Job job;
  job.write_ngram(4, 100);
  const Shape shape{.trainers = 4, .pservers = 2};
  ASSERT_TRUE(job.run("first", shape, {"--set=train.test_period=7"}));
  ASSERT_TRUE(job.run("second", shape, {"--set=train.test_period=7"}));
  EXPECT_EQ(differences(job.snapshot("first", 0), job.snapshot("second", 0)),
            std::vector<std::string>());
}

TEST(LocalTraining, UnevenShardsFinishAndEveryRecordCountsOnce) {
  Job job;
  job.write_bags({1000, 1000, 1000, 1});
  const Shape shape{.trainers = 5, .pservers = 2};
  for (const std::string strategy : {"sync", "async", "half_async", "geo"}) {
    ASSERT_TRUE(job.run(strategy, shape, {"--set=strategy.sparse=" + strategy}));
    const std::string metrics = job.metrics(strategy, 0);
    EXPECT_EQ(values(metrics, "pass", "total_samples"), (std::vector<double>{3001, 3001}))
        << metrics;
    EXPECT_LT(values(metrics, "pass", "total_cost")[1], values(metrics, "pass", "total_cost")[0]);
    EXPECT_EQ(values(job.metrics(strategy, 3), "pass", "samples"), (std::vector<double>{1, 1}));
    EXPECT_EQ(values(job.metrics(strategy, 4), "pass", "samples"), (std::vector<double>{0, 0}));
    // The job's own error is that of all examples, whoever read them.
    double errors = 0;
    for (int trainer = 0; trainer < 5; ++trainer) {
      const std::string own = job.metrics(strategy, trainer);
      errors += values(own, "pass", "classification_error")[1] * values(own, "pass", "samples")[1];
    }
    EXPECT_NEAR(values(metrics, "pass", "total_classification_error")[1], errors / 3001, 1e-6);
    EXPECT_EQ(values(metrics, "pass", "total_classification_error"),
              values(job.metrics(strategy, 4), "pass", "total_classification_error"));
  }
}

TEST(LocalTraining, BadRecordsEndTheJobOrAreLeftOutAndCounted) {
  Job job;
  job.write_bags({100, 60});
  const std::string path = job.folder() / "data/train.txt-00001";
  const std::string good = TemporaryFolder::read(path);
  const std::size_t third_line = good.find('\n', good.find('\n') + 1) + 1;
  job.folder().write("data/train.txt-00001", good.substr(0, third_line) + "no label\n" +
                                                 good.substr(third_line) + "-1\tw1\n");
  const Shape shape{.trainers = 2};
  ASSERT_TRUE(job.run("skip", shape, {"--set=data.on_bad_record=skip"}));
  const std::string metrics = job.metrics("skip", 1);
  EXPECT_EQ(values(metrics, "pass", "samples"), (std::vector<double>{60, 60}));
  EXPECT_EQ(values(metrics, "pass", "total_samples"), (std::vector<double>{160, 160}));
  EXPECT_EQ(values(metrics, "pass", "bad_records"), (std::vector<double>{2, 2}));
  EXPECT_EQ(values(job.metrics("skip", 0), "pass", "bad_records"), (std::vector<double>{0, 0}));
  EXPECT_NE(job.output("skip", 1).find("pass 2 (pass-00001) left out 2 bad records"),
            std::string::npos);
  EXPECT_EQ(job.output("skip", 0).find("bad records"), std::string::npos);

  Process failing = job.start_local("fail", {});
  EXPECT_EQ(failing.wait(), static_cast<int>(Errc::kData));
  EXPECT_NE(failing.output().find("data/train.txt-00001:3: "), std::string::npos)
      << failing.output();
  EXPECT_EQ(job.metrics("fail", 0).find("\"kind\":\"pass\""), std::string::npos);
}

// A layer_norm, a factorisation machine and NCE's draws keep the bits too.
TEST(LocalTraining, ARecommenderGivesTheSameBitsOnAPserverAndOneAucForAllTrainers) {
  Job job;
  job.write_clicks(2, 600);
  ASSERT_TRUE(job.run_local("local", {"--num_passes=2"}));
  ASSERT_TRUE(job.run("remote", {}, {"--num_passes=2"}));
  const auto local = job.snapshot("local", 1);
  EXPECT_TRUE(local.contains("_normal.w0"));
  EXPECT_EQ(differences(local, job.snapshot("remote", 1)), std::vector<std::string>());

  ASSERT_TRUE(job.run("two", {.trainers = 2, .pservers = 2}, {"--trainer_count=2"}));
  std::vector<std::string> metrics{job.metrics("two", 0), job.metrics("two", 1)};
  const std::vector<double> auc = values(metrics[0], "pass", "total_auc");
  ASSERT_EQ(auc.size(), 3U);
  EXPECT_GT(auc[2], 0.7);  // the rule gives 0.8
  EXPECT_LT(auc[0], auc[2]);
  for (const char* key : {"total_auc", "total_precision", "total_recall", "total_f1"}) {
    EXPECT_EQ(values(metrics[0], "pass", key), values(metrics[1], "pass", key)) << key;
    EXPECT_EQ(values(metrics[0], "pass", key).size(), 3U) << key;
  }
  EXPECT_NE(values(metrics[0], "pass", "auc"), values(metrics[1], "pass", "auc"));
}

TEST(LocalTraining, AResumedJobEndsAsIfItHadNeverStopped) {
  Job job;
  job.write_ngram(2, 150);
  const Shape shape{.trainers = 2, .pservers = 2};
  // The schedule goes on by the samples of the whole job, averages by all updates.
  std::vector<std::string> flags{
      "--set=optimizer.learning_rate_schedule=poly", "--set=optimizer.learning_rate_decay_a=0.01",
      "--set=optimizer.learning_rate_decay_b=0.5",   "--set=optimizer.warmup_samples=1000",
      "--set=optimizer.average_window=0.5",          "--set=optimizer.min_average_window=10"};
  flags.emplace_back("--num_passes=1");
  ASSERT_TRUE(job.run("parts", shape, flags));
  flags.back() = "--num_passes=2";
  ASSERT_TRUE(job.run("whole", shape, flags));
  flags.emplace_back("--start_pass=1");
  // On another number of pservers and ports.
  const Shape other{.trainers = 2, .pservers = 1, .ports_num = 3, .ports_num_for_sparse = 2};
  std::filesystem::rename(job.folder() / "parts-0.jsonl", job.folder() / "earlier.jsonl");
  ASSERT_TRUE(job.run("parts", other, flags));
  EXPECT_EQ(values(job.metrics("parts", 0), "pass", "pass"), std::vector<double>{1});
  auto whole = job.snapshot("whole", 1);
  auto parts = job.snapshot("parts", 1);
  for (const char* parameter : {"_hidden.w0", "_hidden.wbias", "_output.w0", "_output.w0.state"}) {
    ASSERT_TRUE(whole.contains(parameter)) << parameter;
    EXPECT_EQ(whole[parameter], parts[parameter]) << parameter;
  }
  EXPECT_EQ(values(job.metrics("parts", 0), "test", "cost"),
            std::vector<double>{values(job.metrics("whole", 0), "test", "cost").at(1)});
}

// A table that shrinks, with an entry policy for a slot, in snapshots of which some are deltas: the
// same bits on a pserver, and from a delta on.
TEST(LocalTraining, AShrinkingTableGoesOnFromADeltaWithTheSameBits) {
  Job job;
  job.write_clicks(2, 600);
  std::string text = TemporaryFolder::read(job.folder() / "job.toml");
  const std::string plain = "weight = { sparse = true }";
  text.replace(text.find(plain), plain.size(),
               "weight = { sparse = true, entry = [{ slot = \"items\", entry_count = 4 }], "
               "shrink = { label = \"click\", decay = 0.5, threshold = 6 } }");
  job.folder().write("job.toml", text);
  const std::vector<std::string> flags{"--num_passes=6", "--set=train.full_snapshot_period=3",
                                       "--set=train.snapshots_kept=1"};
  ASSERT_TRUE(job.run_local("local", flags));
  ASSERT_TRUE(job.run("remote", {}, flags));
  EXPECT_EQ(differences(job.snapshot("local", 5), job.snapshot("remote", 5)),
            std::vector<std::string>());
  const std::string log = job.output("remote", 0);
  EXPECT_NE(log.find("Saving what changed since"), std::string::npos);
  const std::size_t shrunk = log.find(" shrunk=");
  ASSERT_NE(shrunk, std::string::npos) << log;
  EXPECT_NE(log.substr(shrunk, 10), " shrunk=0 ");
  EXPECT_FALSE(std::filesystem::exists(job.save_dir("local") + "/pass-00004"));
  EXPECT_TRUE(std::filesystem::exists(job.save_dir("local") + "/pass-00005"));

  std::vector<std::string> all = flags;
  all.back() = "--set=train.snapshots_kept=0";
  ASSERT_TRUE(job.run("parts", {}, all));
  EXPECT_TRUE(job.snapshot("parts", 4).contains("_ids.w0.sparse-removed"));
  std::filesystem::remove_all(job.save_dir("parts") + "/pass-00005");
  std::filesystem::rename(job.folder() / "parts-0.jsonl", job.folder() / "earlier.jsonl");
  all.emplace_back("--start_pass=5");
  ASSERT_TRUE(job.run("parts", {}, all));
  EXPECT_EQ(differences(job.values("parts", 5), job.values("local", 5)),
            std::vector<std::string>());
}

TEST(LocalTraining, TestsAndSnapshotsUseTheAverageAndTrainingDoesNot) {
  Job job;
  job.write_ngram(1, 200);
  const std::vector<std::string> averaged{"--set=optimizer.average_window=1.0",
                                          "--set=optimizer.min_average_window=5"};
  const std::vector<std::string> tests{"--num_passes=2", "--set=train.test_period=7"};
  std::vector<std::string> flags = tests;
  ASSERT_TRUE(job.run_local("plain", flags));
  flags.insert(flags.end(), averaged.begin(), averaged.end());
  ASSERT_TRUE(job.run_local("averaged", flags));
  EXPECT_EQ(values(job.metrics("plain", 0), "pass", "total_cost"),
            values(job.metrics("averaged", 0), "pass", "total_cost"));
  EXPECT_NE(values(job.metrics("plain", 0), "test", "cost"),
            values(job.metrics("averaged", 0), "test", "cost"));
  const auto plain = job.snapshot("plain", 1);
  const auto with_average = job.snapshot("averaged", 1);
  EXPECT_NE(plain.at("_output.w0"), with_average.at("_output.w0"));
  // The values that training goes on from are the last plane of the state.
  const std::string& value = plain.at("_output.w0");
  EXPECT_NE(with_average.at("_output.w0.state").find(value.substr(value.size() - 1024)),
            std::string::npos);
  ASSERT_TRUE(job.run("remote", {}, flags));
  EXPECT_EQ(differences(with_average, job.snapshot("remote", 1)), std::vector<std::string>());
}

TEST(LocalTraining, ATinyGlobalNormKeepsParametersWhereTheyAre) {
  Job job;
  job.write_ngram(1, 100);
  const std::vector<std::string> sgd{"--set=optimizer.method=sgd", "--set=optimizer.l2=0",
                                     "--num_passes=2"};
  std::vector<std::string> clipped = sgd;
  clipped.emplace_back("--set=optimizer.clip_global_norm=1e-12");
  ASSERT_TRUE(job.run_local("free", sgd));
  ASSERT_TRUE(job.run_local("clipped", clipped));
  const auto free = values(job.metrics("free", 0), "test", "cost");
  const auto still = values(job.metrics("clipped", 0), "test", "cost");
  EXPECT_GT(free.at(0) - free.at(1), 1e-3);
  EXPECT_NEAR(still.at(0), still.at(1), 1e-6);
}

TEST(LocalTraining, ADamagedSnapshotIsRefusedByName) {
  Job job;
  job.write_ngram(1, 50);
  ASSERT_TRUE(job.run_local("job", {}));
  std::filesystem::resize_file(job.save_dir("job") + "/pass-00000/_output.w0", 100);
  Process process =
      job.start_local("again", {"--init_model_path=" + job.save_dir("job") + "/pass-00000"});
  EXPECT_EQ(process.wait(), static_cast<int>(Errc::kData));
  EXPECT_NE(process.output().find("_output.w0"), std::string::npos) << process.output();
}

TEST(LocalTraining, AKilledTrainerEndsTheOthers) {
  Job job;
  job.write_ngram(2, 2000);
  const Shape shape{.trainers = 2};
  const int port = free_ports(2);
  const Process pserver = job.start_pserver("job", shape, 0, port);
  ASSERT_TRUE(pserver.prints("READY pserver 0"));
  Process first = job.start_trainer("job", shape, 0, port, {"--num_passes=1000"});
  Process second = job.start_trainer("job", shape, 1, port, {"--num_passes=1000"});
  ASSERT_TRUE(second.prints("Pass=0 Batch=10 ")) << second.output();
  second.signal(SIGKILL);
  EXPECT_EQ(second.wait(), 128 + SIGKILL);
  const auto code = first.wait();
  ASSERT_TRUE(code.has_value()) << first.output();
  EXPECT_NE(*code, 0);
  EXPECT_NE(first.output().find("trainer 1 lost at step"), std::string::npos) << first.output();
}

// Its connection stands, and it answers nothing.
TEST(LocalTraining, AStoppedTrainerHoldsNoPserverInAFailedJob) {
  Job job;
  job.write_ngram(3, 2000);
  const Shape shape{.trainers = 3};
  const int port = free_ports(2);
  Process pserver = job.start_pserver("job", shape, 0, port);
  ASSERT_TRUE(pserver.prints("READY pserver 0"));
  std::vector<Process> trainers;
  for (int id = 0; id < 3; ++id) {
    trainers.push_back(job.start_trainer("job", shape, id, port, {"--num_passes=1000"}));
  }
  ASSERT_TRUE(trainers[2].prints("Pass=0 Batch=10 ")) << trainers[2].output();
  trainers[2].signal(SIGSTOP);
  trainers[1].signal(SIGKILL);
  EXPECT_EQ(pserver.wait(), static_cast<int>(Errc::kUnreachable)) << pserver.output();
  EXPECT_EQ(trainers[0].wait(), static_cast<int>(Errc::kUnreachable)) << trainers[0].output();
  trainers[2].signal(SIGCONT);
  EXPECT_EQ(trainers[2].wait(), static_cast<int>(Errc::kUnreachable)) << trainers[2].output();
}

// The order to stop all processes also ends a program that delivers data, perhaps before the
// trainer has seen the order. So what that program leaves out is no fault of the data.
TEST(LocalTraining, AStopThatEndsAPipeCommandIsNoFaultOfTheData) {
  Job job;
  job.write_ngram(1, 200);
  const int port = free_ports(2);
  Process pserver = job.start_pserver("job", {}, 0, port);
  ASSERT_TRUE(pserver.prints("READY pserver 0"));
  Process trainer = job.start_trainer(
      "job", {}, 0, port,
      {R"(--set=data.pipe_command=["sh", "-c", "kill -TERM $PPID; sleep 0.5; exit 3"])"});
  EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kInterrupted)) << trainer.output();
  EXPECT_NE(trainer.output().find("stopped: "), std::string::npos) << trainer.output();
  EXPECT_NE(trainer.output().find("ended with 3"), std::string::npos) << trainer.output();
  EXPECT_EQ(pserver.wait(), static_cast<int>(Errc::kUnreachable))
      << "it has lost its trainer: " << pserver.output();
}

// A pull or push that failed ends the trainer with the server's name; nothing is trained after it.
TEST(LocalTraining, Trap12NothingIsTrainedAfterAServerDied) {
  for (const char* const strategy : {"sync", "async", "half_async", "geo"}) {
    Job job;
    job.write_ngram(1, 2000);
    const int port = free_ports(2);
    Process pserver = job.start_pserver("job", {}, 0, port);
    ASSERT_TRUE(pserver.prints("READY pserver 0"));
    std::vector<std::string> flags{"--num_passes=1000"};
    for (const char* kind : {"dense", "sparse"}) {
      flags.push_back(fmt::format("--set=strategy.{}={}", kind, strategy));
    }
    Process trainer = job.start_trainer("job", {}, 0, port, flags);
    ASSERT_TRUE(trainer.prints("Pass=0 Batch=10 ")) << trainer.output();
    pserver.signal(SIGKILL);
    EXPECT_EQ(pserver.wait(), 128 + SIGKILL);
    EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kUnreachable)) << strategy;
    const std::string output = trainer.output();
    const std::size_t error = output.rfind("paddle: ");
    ASSERT_NE(error, std::string::npos) << output;
    EXPECT_NE(output.find(" port 0 (127.0.0.1:", error), std::string::npos) << output;
    EXPECT_EQ(output.find("Pass=", error), std::string::npos) << output;
    EXPECT_TRUE(values(job.metrics("job", 0), "save", "pass").empty());
  }
}

// Jobs of three trainers whose snapshots go to a small disk. All processes that wait for trainer 0,
// which saves, end with its code.
class FullDiskOfSnapshots : public testing::Test {
 protected:
  void SetUp() override {
    job.write_ngram(3, 400);
    ASSERT_TRUE(job.run("probe", {.trainers = 3}, {}));
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(job.save_dir("probe") + "/pass-00000")) {
      if (entry.is_regular_file()) snapshot_bytes_ += (entry.file_size() / 4096 + 1) * 4096;
    }
  }
  // Runs `work` with a disk for the snapshots of the job `name` that has room for half a snapshot
  // more than `snapshots`.
  void on_disk_for(const std::string& name, int snapshots, const std::function<void()>& work) {
    std::filesystem::create_directory(job.save_dir(name));
    const auto bytes = snapshot_bytes_ * (2 * static_cast<std::size_t>(snapshots) + 1) / 2;
    if (!on_small_disk(job.save_dir(name), std::to_string(bytes), work))
      GTEST_SKIP() << "nothing can be mounted here";
  }
  static void expect_all_end_with_7(Job::Running& running) {
    for (Process& trainer : running.trainers) EXPECT_EQ(trainer.wait(), 7) << trainer.output();
    for (Process& pserver : running.pservers) EXPECT_EQ(pserver.wait(), 7) << pserver.output();
    EXPECT_NE(running.trainers[0].output().find("No space left on device"), std::string::npos)
        << running.trainers[0].output();
  }

  Job job;

 private:
  std::size_t snapshot_bytes_ = 0;
};

TEST_F(FullDiskOfSnapshots, AtTheFirstOneEndsAllWithItsCode) {
  for (const Shape& shape : {Shape{.trainers = 3}, Shape{.trainers = 3, .pservers = 2},
                             Shape{.trainers = 3, .ports_num = 0}}) {
    const std::string name = fmt::format("first-{}-{}", shape.pservers, shape.ports_num);
    on_disk_for(name, 0, [&] {
      Job::Running running = job.start(name, shape, {"--num_passes=1000"});
      expect_all_end_with_7(running);
    });
  }
}

TEST_F(FullDiskOfSnapshots, AtTheLastOneEndsAllWithItsCode) {
  on_disk_for("last", 1, [&] {
    Job::Running running = job.start("last", {.trainers = 3}, {"--num_passes=3"});
    expect_all_end_with_7(running);
    EXPECT_TRUE(std::filesystem::exists(job.save_dir("last") + "/pass-00000/MANIFEST"));
  });
}

// The other trainers have stopped as they were asked. Their code ends no job before that of trainer
// 0 and of the pservers.
TEST_F(FullDiskOfSnapshots, AtAStopEndsTrainer0AndThePserversWithItsCode) {
  on_disk_for("stop", 1, [&] {
    Job::Running running = job.start("stop", {.trainers = 3}, {"--num_passes=1000000"});
    ASSERT_TRUE(running.trainers[0].prints("No space left on device"))
        << running.trainers[0].output();
    for (const Process& trainer : running.trainers) trainer.signal(SIGTERM);
    EXPECT_EQ(running.trainers[0].wait(), 7) << running.trainers[0].output();
    EXPECT_EQ(running.pservers[0].wait(), 7) << running.pservers[0].output();
    for (const std::size_t other : {1, 2}) {
      const auto code = running.trainers[other].wait();
      EXPECT_TRUE(code == 75 || code == 7) << running.trainers[other].output();
    }
  });
}

}  // namespace
}  // namespace paddle::test
