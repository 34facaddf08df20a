// Trainers that are killed at any moment and come back alone, as their supervisors would start
// them: the other processes run on, and the result is that of an undisturbed run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/ledger_job.h"
#include "tests/e2e/supervised.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr Ledger kLedger{.trainers = 3, .records = 8000, .passes = 4};
constexpr auto kLimit = std::chrono::seconds(250);

constexpr int kKills = 8;

// More for a night, in as many more passes: PADDLE_KILLS=200.
int scaled(int passes) {
  return passes * std::max(1, kills_wanted(kKills) / kKills);
}

class LoneReturn : public testing::Test {
 protected:
  static std::string copy_of(const std::string& name) { return name + "-copy"; }
  // Trains as job `name`, of which trainer 1 saves copies as copy_of(name), and kills trainers at
  // random moments until enough were killed or all is done. Returns how many were.
  int train_under_kills(const std::string& name, const Shape& shape, std::vector<std::string> flags,
                        std::uint64_t seed) {
    const int port = free_ports(static_cast<std::uint16_t>(
        shape.pservers * (shape.ports_num + shape.ports_num_for_sparse)));
    std::vector<Process> pservers;
    for (int id = 0; id < shape.pservers; ++id) {
      pservers.push_back(job.start_pserver(
          name, shape, id, port, {"--lost_trainer_ends_job", "--lost_trainer_grace=100"}));
    }
    for (const Process& pserver : pservers) EXPECT_TRUE(pserver.prints("READY pserver"));
    std::vector<std::unique_ptr<Supervised>> trainers;
    for (int id = 0; id < shape.trainers; ++id) {
      std::vector<std::string> own = flags;
      if (id == 1)
        own.insert(own.end(), {"--saves_copy", "--save_dir=" + job.save_dir(copy_of(name))});
      trainers.push_back(supervised_trainer(job, name, shape, id, port, own));
    }
    const bool has_begun = trainers[0]->process().prints("Pass=0 Batch=", kLimit);
    EXPECT_TRUE(has_begun) << trainers[0]->process().output();
    if (!has_begun) return 0;
    int kills = 0;
    for (Rng rng(seed); kills < kills_wanted(kKills); ++kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + rng.below(280)));
      Supervised& victim = *trainers[rng.below(trainers.size())];
      if (victim.has_ended()) break;
      victim.kill_and_start();
    }
    std::printf("killed %d trainers\n", kills);
    for (auto& trainer : trainers) {
      EXPECT_EQ(trainer->wait(kLimit), 0) << trainer->process().output();
    }
    for (Process& pserver : pservers) EXPECT_EQ(pserver.wait(), 0) << pserver.output();
    return kills;
  }

  Job job;
};

TEST_F(LoneReturn, SyncEndsWithTheSameBitsAndTotals) {
  job.write_clicks(3, 3000);
  const Shape shape{.trainers = 3, .pservers = 2, .ports_num = 2, .ports_num_for_sparse = 2};
  const std::vector<std::string> flags{fmt::format("--num_passes={}", scaled(6)),
                                       "--set=train.batch_size=8", "--log_period=10",
                                       "--set=train.snapshots_kept=0"};
  ASSERT_TRUE(job.run("whole", shape, flags));
  EXPECT_GE(train_under_kills("killed", shape, flags, 1), 3);
  for (int pass = 0; pass < scaled(6); ++pass) {
    EXPECT_TRUE(job.snapshot("whole", pass) == job.snapshot("killed", pass)) << pass;
    EXPECT_TRUE(job.snapshot("whole", pass) == job.snapshot(copy_of("killed"), pass)) << pass;
  }
  // Evaluators keep what a lost incarnation had counted, too.
  EXPECT_EQ(totals_of(job.output("killed", 0)), totals_of(job.output("whole", 0)));
}

// As one that is killed after it has told the pservers that it leaves, which then ended.
TEST_F(LoneReturn, OneThatWasLeavingLearnsWithinSecondsThatTheJobIsOver) {
  job.write_clicks(2, 300);
  const Shape shape{.trainers = 2, .pservers = 2};
  const int port = free_ports(4);
  std::vector<Process> pservers;
  for (int id = 0; id < shape.pservers; ++id)
    pservers.push_back(job.start_pserver("job", shape, id, port, {"--lost_trainer_ends_job"}));
  for (const Process& pserver : pservers) ASSERT_TRUE(pserver.prints("READY pserver"));
  std::vector<std::unique_ptr<Supervised>> trainers;
  for (int id = 0; id < shape.trainers; ++id)
    trainers.push_back(supervised_trainer(job, "job", shape, id, port, {"--num_passes=1"}));
  for (auto& trainer : trainers) ASSERT_EQ(trainer->wait(kLimit), 0) << trainer->process().output();
  for (Process& pserver : pservers) ASSERT_EQ(pserver.wait(), 0) << pserver.output();
  const auto begun = std::chrono::steady_clock::now();
  trainers[1]->start();
  EXPECT_EQ(trainers[1]->wait(kLimit), 0) << trainers[1]->process().output();
  EXPECT_NE(trainers[1]->process().output().find("the job had already ended"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
}

class LoneReturnExactlyOnce
    : public LoneReturn,
      public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(LoneReturnExactlyOnce, EveryRecordIsAppliedOncePerPass) {
  write_ledger(job, kLedger);
  const Shape shape{.trainers = kLedger.trainers, .pservers = 2};
  const auto [dense, sparse] = GetParam();
  std::vector<std::string> flags{fmt::format("--num_passes={}", scaled(kLedger.passes)),
                                 "--set=train.snapshots_kept=0",
                                 "--set=train.batch_size=4",
                                 "--log_period=20",
                                 fmt::format("--set=strategy.dense={}", dense),
                                 fmt::format("--set=strategy.sparse={}", sparse)};
  if (std::string_view(sparse) == "geo") flags.emplace_back("--set=strategy.update_frequency=7");
  EXPECT_GE(train_under_kills("job", shape, flags, 2), 3);
  for (int pass = 0; pass < scaled(kLedger.passes); ++pass) {
    const std::string snapshot = fmt::format("{}/pass-{:05}", job.save_dir("job"), pass);
    EXPECT_EQ(
        shows(snapshot),
        (std::map<float, int>{{static_cast<float>(pass + 1), kLedger.trainers * kLedger.records}}))
        << snapshot;
    EXPECT_TRUE(job.snapshot("job", pass) == job.snapshot(copy_of("job"), pass)) << pass;
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, LoneReturnExactlyOnce,
                         testing::Values(std::pair("sync", "sync"), std::pair("async", "async"),
                                         std::pair("half_async", "half_async"),
                                         std::pair("geo", "geo"), std::pair("sync", "async"),
                                         std::pair("sync", "half_async"),
                                         std::pair("async", "sync"), std::pair("sync", "geo")),
                         [](const auto& strategies) {
                           return fmt::format("{}_{}", strategies.param.first,
                                              strategies.param.second);
                         });

}  // namespace
}  // namespace paddle::test
