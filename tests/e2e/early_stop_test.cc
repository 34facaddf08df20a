// Jobs that end before their last pass: after worse tests, when a figure is reached, or when their
// time is over.
#include <filesystem>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "base/rng.h"
#include "tests/e2e/supervised.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr Shape kShape{.trainers = 2, .pservers = 2};
constexpr int kPasses = 12;
constexpr int kWorse = 2;
constexpr auto kLimit = std::chrono::seconds(200);

std::vector<double> test_costs(const std::string& metrics) {
  std::vector<double> costs;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kCost = "\"cost\":";
    const std::size_t at = line.find(kCost);
    if (!line.starts_with("{\"kind\":\"test\"") || at == std::string::npos) continue;
    costs.push_back(std::stod(line.substr(at + kCost.size())));
  }
  return costs;
}

// The pass that ends a job of these tests, by the words of docs/job.md; the last one if none does.
int end_of(const std::vector<double>& costs) {
  std::size_t best = 0;
  int worse = 0;
  for (std::size_t pass = 1; pass < costs.size(); ++pass) {
    worse = costs[pass] > costs[best] ? worse + 1 : 0;
    if (worse == 0) best = pass;
    if (worse == kWorse) return static_cast<int>(pass);
  }
  return static_cast<int>(costs.size()) - 1;
}

std::set<std::string> snapshots_of(const Job& job, const std::string& name) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(job.save_dir(name))) {
    if (entry.is_directory()) found.insert(entry.path().filename());
  }
  return found;
}

std::string best_of(const Job& job, const std::string& name) {
  return TemporaryFolder::read(job.save_dir(name) + "/BEST");
}

// A few sentences that are learnt by heart, until those held out fare worse.
class EarlyStop : public testing::Test {
 protected:
  void SetUp() override {
    job.write_ngram(2, 60);
    flags_ = {"--set=optimizer.learning_rate=0.5", "--set=train.batch_size=8"};
    ASSERT_TRUE(job.run("all", kShape, with({fmt::format("--num_passes={}", kPasses)})));
    costs_ = test_costs(job.metrics("all", 0));
    ASSERT_EQ(costs_.size(), static_cast<std::size_t>(kPasses));
    last_ = end_of(costs_);
    ASSERT_LT(last_, kPasses - 2) << "the job of this test has to become worse";
    best_ = last_ - kWorse;
    RecordProperty("last_pass", last_);
  }
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> all = flags_;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> early(const std::vector<std::string>& more) const {
    std::vector<std::string> all =
        with({"--set=train.best=cost", fmt::format("--set=train.stop_after_worse={}", kWorse)});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string passes(int count) const { return fmt::format("--num_passes={}", count); }
  // The job ended with the pass that it had to, and as one that was to have so many.
  void expect_end(const std::string& name) {
    if (!std::filesystem::exists(job.save_dir("short"))) {
      ASSERT_TRUE(job.run("short", kShape, with({passes(last_ + 1)})));
    }
    EXPECT_EQ(snapshots_of(job, name), (std::set<std::string>{fmt::format("pass-{:05}", best_),
                                                              fmt::format("pass-{:05}", last_ - 1),
                                                              fmt::format("pass-{:05}", last_)}));
    EXPECT_EQ(best_of(job, name), fmt::format("pass-{:05}\n", best_));
    EXPECT_TRUE(job.values(name, last_) == job.values("short", last_));
  }

  Job job;
  std::vector<std::string> flags_;
  std::vector<double> costs_;
  int best_ = 0;
  int last_ = 0;
};

TEST_F(EarlyStop, HasTheBitsOfAJobWithSoManyPasses) {
  ASSERT_TRUE(job.run("job", kShape, early({passes(kPasses)})));
  expect_end("job");
  const std::string why =
      fmt::format("training ends with pass {} (pass-{:05}): cost was worse than", last_ + 1, last_);
  for (const int trainer : {0, 1}) {
    EXPECT_NE(job.output("job", trainer).find(why), std::string::npos)
        << job.output("job", trainer);
  }
  // It is over for good, unless it may become worse more often.
  ASSERT_TRUE(job.run("job", kShape, early({passes(kPasses), "--resume"})));
  EXPECT_EQ(test_costs(job.metrics("job", 0)).size(), static_cast<std::size_t>(last_) + 1);
  expect_end("job");
  ASSERT_TRUE(job.run("job", kShape,
                      early({passes(kPasses), "--resume", "--set=train.stop_after_worse=3"})));
  EXPECT_GT(test_costs(job.metrics("job", 0)).size(), static_cast<std::size_t>(last_) + 1);
}

TEST_F(EarlyStop, AJobThatIsResumedKeepsTheCount) {
  for (const int first : {1, last_}) {
    const std::string name = fmt::format("job{}", first);
    ASSERT_TRUE(job.run(name, kShape, early({passes(first)})));
    ASSERT_TRUE(job.run(name, kShape, early({passes(kPasses), "--resume"})));
    const auto costs = test_costs(job.metrics(name, 0));
    EXPECT_EQ(costs, std::vector<double>(costs_.begin(), costs_.begin() + last_ + 1));
    expect_end(name);
  }
}

TEST_F(EarlyStop, AGroupOfTrainersHasTheSameEnd) {
  const Shape group{.trainers = 2, .pservers = 0};
  const Shape hybrid{.trainers = 2, .pservers = 2, .ports_num = 0};
  ASSERT_TRUE(job.run("hybrid", hybrid, early({passes(last_)})));
  ASSERT_TRUE(job.run("hybrid", hybrid, early({passes(kPasses), "--resume"})));
  expect_end("hybrid");
  job.write_dense_ngram({60, 60});
  ASSERT_TRUE(job.run("group", group, early({passes(kPasses)})));
  EXPECT_NE(job.output("group", 1).find("training ends with pass "), std::string::npos);
}

// Some of the kills are while trainer 0 saves and tests and the others wait for what it decides. On
// a fast machine a job is often over before it is killed.
TEST_F(EarlyStop, TrainersThatComeBackAloneAgreeOnTheEnd) {
  int kills = 0;
  for (std::uint64_t seed = 1; seed <= 8 && kills < 9; ++seed) {
    const std::string name = fmt::format("killed{}", seed);
    const int port = free_ports(kShape.ports());
    std::vector<Process> pservers;
    for (int id = 0; id < kShape.pservers; ++id) {
      pservers.push_back(job.start_pserver(
          name, kShape, id, port, {"--lost_trainer_ends_job", "--lost_trainer_grace=100"}));
    }
    for (const Process& pserver : pservers) ASSERT_TRUE(pserver.prints("READY pserver"));
    std::vector<std::unique_ptr<Supervised>> trainers;
    for (int id = 0; id < kShape.trainers; ++id) {
      trainers.push_back(supervised_trainer(job, name, kShape, id, port, early({passes(kPasses)})));
    }
    Rng rng(seed);
    for (int pass = best_; pass <= last_; ++pass) {
      for (const char* mark : {"Saving parameters to ", " over all trainers: "}) {
        const std::string line =
            mark[0] == 'S' ? fmt::format("{}{}/pass-{:05}", mark, job.save_dir(name), pass)
                           : fmt::format("Pass={}{}", pass, mark);
        ASSERT_TRUE(trainers[0]->process().prints(line, kLimit)) << trainers[0]->process().output();
        std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(40)));
        Supervised& victim = *trainers[rng.below(trainers.size())];
        if (victim.has_ended()) continue;
        victim.kill_and_start();
        ++kills;
      }
    }
    for (auto& trainer : trainers) {
      EXPECT_EQ(trainer->wait(kLimit), 0) << trainer->process().output();
    }
    for (Process& pserver : pservers) EXPECT_EQ(pserver.wait(), 0) << pserver.output();
    expect_end(name);
  }
  EXPECT_GE(kills, 3);
}

TEST(EarlyStops, AFigureThatIsReachedEndsAJobOfAnyStrategy) {
  for (const char* const strategy : {"async", "half_async", "geo"}) {
    Job job;
    job.write_ngram(2, 100);
    std::vector<std::string> flags{"--num_passes=5", "--set=train.stop_when=perplexity < 1000",
                                   "--set=train.best=perplexity"};
    for (const char* kind : {"dense", "sparse"}) {
      flags.push_back(fmt::format("--set=strategy.{}={}", kind, strategy));
    }
    ASSERT_TRUE(job.run("job", {.trainers = 2, .pservers = 2}, flags)) << strategy;
    EXPECT_EQ(snapshots_of(job, "job"), std::set<std::string>{"pass-00000"}) << strategy;
    EXPECT_EQ(best_of(job, "job"), "pass-00000\n") << strategy;
    for (const int trainer : {0, 1}) {
      EXPECT_NE(
          job.output("job", trainer)
              .find("with pass 1 (pass-00000): train.stop_when = 'perplexity < 1000' is fulfilled"),
          std::string::npos)
          << job.output("job", trainer);
    }
    // Resumed, it may take another one.
    flags[1] = "--set=train.stop_when=perplexity < 1";
    flags[0] = "--num_passes=2";
    flags.emplace_back("--resume");
    ASSERT_TRUE(job.run("job", {.trainers = 2, .pservers = 2}, flags)) << strategy;
    EXPECT_TRUE(snapshots_of(job, "job").contains("pass-00001")) << strategy;
  }
}

TEST(EarlyStops, AnUnknownFigureIsNamedWithItsLineBeforeAnythingIsTrained) {
  Job job;
  job.write_ngram(1, 10);
  Process process = job.start_local("job", {"--set=train.best=auc"});
  EXPECT_EQ(process.wait(), static_cast<int>(Errc::kUsage));
  const std::string output = process.output();
  EXPECT_NE(output.find("--set train.best=auc: [train] best: tests of this job have no 'auc'"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("they have cost, classification_error, perplexity"), std::string::npos)
      << output;
}

TEST(EarlyStops, TimeThatIsOverStopsTheJobUntilItIsResumed) {
  Job job;
  job.write_ngram(2, 400);
  const std::vector<std::string> flags{"--set=train.time_max=1s", "--num_passes=100000"};
  for (const std::string name : {"job", "group"}) {
    const bool is_group = name == "group";
    if (is_group) job.write_dense_ngram({400, 400});
    const Shape shape{.trainers = 2, .pservers = is_group ? 0 : 1};
    const int port = free_ports(shape.ports());
    std::vector<Process> processes;
    for (int id = 0; id < shape.pservers; ++id) {
      processes.push_back(job.start_pserver(name, shape, id, port));
      ASSERT_TRUE(processes.back().prints("READY pserver"));
    }
    for (const int id : {0, 1})
      processes.push_back(job.start_trainer(name, shape, id, port, flags));
    for (std::size_t i = 0; i < processes.size(); ++i) {
      const bool is_pserver = i < static_cast<std::size_t>(shape.pservers);
      EXPECT_EQ(processes[i].wait(), is_pserver ? 0 : static_cast<int>(Errc::kResumable))
          << processes[i].output();
    }
    const std::regex stopped(
        R"(stopped because train\.time_max is over in pass \d+ \(pass-\d{5}\), after batch )");
    EXPECT_TRUE(std::regex_search(job.output(name, 0), stopped)) << job.output(name, 0);
    EXPECT_FALSE(snapshots_of(job, name).empty());
  }
}

}  // namespace
}  // namespace paddle::test
