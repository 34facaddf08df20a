// Trainers that keep dense parameters among themselves and tables on pservers, as real processes on
// loopback.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr std::chrono::seconds kPatience{240};
constexpr Shape kHybrid{.trainers = 3, .pservers = 2, .ports_num = 0, .ports_num_for_sparse = 2};
constexpr Shape kServers{.trainers = 3, .pservers = 2, .ports_num_for_sparse = 2};

// The third trainer has no file, and takes part in the steps of the others.
TEST(Hybrid, HasTheBitsOfSyncOnPservers) {
  Job job;
  job.write_ngram(2, 40);
  ASSERT_TRUE(job.run("servers", kServers, kThreePasses));
  ASSERT_TRUE(job.run("hybrid", kHybrid, kThreePasses));
  for (const int pass : {0, 1, 2}) {
    const auto hybrid = job.values("hybrid", pass);
    EXPECT_GE(hybrid.size(), 2U);
    EXPECT_TRUE(hybrid == job.values("servers", pass)) << pass;
  }
}

// Rows are pushed for the steps that all trainers have agreed on, and no others.
TEST(Hybrid, DropEndsAPassOnPserversToo) {
  Job job;
  job.write_ngram(3, 40);
  ASSERT_TRUE(job.run("drop", kHybrid, with(kThreePasses, {"--set=strategy.uneven=drop"})));
  const std::string last = R"("kind":"pass","pass":2,"batch":)";
  std::vector<std::string> batches;
  for (int id = 0; id < kHybrid.trainers; ++id) {
    const std::string metrics = job.metrics("drop", id);
    ASSERT_NE(metrics.find(last), std::string::npos) << metrics;
    const std::string from = metrics.substr(metrics.find(last) + last.size());
    batches.push_back(from.substr(0, from.find(',')));
    const std::string pushes = R"("sparse_pushes":)";
    EXPECT_EQ(std::stoul(from.substr(from.find(pushes) + pushes.size())),
              3 * std::stoul(batches.back()));
  }
  EXPECT_EQ(batches, std::vector<std::string>(3, batches[0]));
}

// A stopped job goes on in either way, and ends with the same bits.
TEST(Hybrid, AStoppedJobGoesOnOnPserversAloneAndBack) {
  Job job;
  job.write_ngram(2, 40);
  ASSERT_TRUE(job.run("whole", kServers, kThreePasses));
  for (const bool to_servers : {true, false}) {
    const std::string name = to_servers ? "to" : "back";
    Job::Running all = job.start(name, kHybrid, kThreePasses);
    ASSERT_TRUE(all.trainers[0].prints("Pass=1 Batch=2 ", kPatience)) << all.trainers[0].output();
    all.trainers[1].signal(SIGTERM);
    for (Process& trainer : all.trainers) {
      EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kResumable)) << trainer.output();
    }
    for (Process& pserver : all.pservers) EXPECT_EQ(pserver.wait(), 0) << pserver.output();
    ASSERT_TRUE(job.run(name, to_servers ? kServers : kHybrid, with(kThreePasses, {"--resume"})));
    EXPECT_TRUE(job.values(name, 2) == job.values("whole", 2)) << name;
  }
}

// A trainer alone has nobody to differ from: its tables are those of the same strategy with dense
// parameters on pservers.
class HybridSparse : public testing::TestWithParam<const char*> {};

TEST_P(HybridSparse, IsTheStrategyOfTheTablesOnly) {
  Job job;
  job.write_ngram(1, 30);
  const auto flags = with(kThreePasses, {fmt::format("--set=strategy.sparse={}", GetParam())});
  ASSERT_TRUE(job.run("servers", {.trainers = 1, .pservers = 1}, flags));
  ASSERT_TRUE(job.run("hybrid", {.trainers = 1, .pservers = 1, .ports_num = 0}, flags));
  EXPECT_TRUE(job.values("hybrid", 2) == job.values("servers", 2));
  job.write_ngram(2, 30);
  ASSERT_TRUE(job.run("all", kHybrid, flags)) << "all trainers come to the end";
  EXPECT_FALSE(job.values("all", 2).empty());
}

INSTANTIATE_TEST_SUITE_P(Strategies, HybridSparse,
                         testing::Values("sync", "async", "half_async", "geo"));

// A push that its shard holds back is half of one that the group waits for. The third trainer has
// no file, and is behind nobody.
TEST(Hybrid, Trap48TrainersThatMayNotRunAheadComeToTheEnd) {
  Job job;
  job.write_ngram(2, 40);
  for (const std::string strategy : {"async", "half_async"}) {
    for (const int most : {0, 2}) {
      const std::string name = fmt::format("{}-{}", strategy, most);
      const auto flags = with(kThreePasses, {"--set=strategy.sparse=" + strategy,
                                             fmt::format("--set=strategy.staleness_max={}", most)});
      ASSERT_TRUE(job.run(name, kHybrid, flags));
      const std::string said = job.output(name, 0);
      EXPECT_NE(said.find("Pass=2 over all trainers: samples=480 "), std::string::npos) << said;
    }
  }
}

// Trap 47: whichever part loses somebody, all end with one cause.
TEST(Hybrid, Trap47OneCauseIsReportedAndAllEnd) {
  Job job;
  job.write_ngram(3, 400);
  for (const bool is_pserver : {true, false}) {
    const std::string name = is_pserver ? "pserver" : "trainer";
    Job::Running all = job.start(name, kHybrid, kThreePasses);
    ASSERT_TRUE(all.trainers[0].prints("Pass=1 Batch=2 ", kPatience)) << all.trainers[0].output();
    (is_pserver ? all.pservers[1] : all.trainers[1]).signal(SIGKILL);
    for (std::size_t id = 0; id < all.trainers.size(); ++id) {
      const auto code = all.trainers[id].wait();
      if (!is_pserver && id == 1) continue;
      const std::string said = all.trainers[id].output();
      EXPECT_EQ(code, static_cast<int>(Errc::kUnreachable)) << said;
      const bool is_named = is_pserver ? said.find("pserver sparse port") != std::string::npos
                                       : said.find("rank 1") != std::string::npos ||
                                             said.find("trainer 1 lost") != std::string::npos;
      EXPECT_TRUE(is_named) << said;
    }
    for (std::size_t id = 0; id < all.pservers.size(); ++id) {
      const auto code = all.pservers[id].wait();
      if (is_pserver && id == 1) continue;
      EXPECT_TRUE(code && *code != 0) << all.pservers[id].output();
    }
    ASSERT_TRUE(job.run(name, kHybrid, with(kThreePasses, {"--resume"})));
  }
  EXPECT_TRUE(job.values("pserver", 2) == job.values("trainer", 2));
}

TEST(Hybrid, RefusesWhatDoesNotGoTogether) {
  Job job;
  const auto expect_refused = [&](const Shape& shape, const std::vector<std::string>& flags,
                                  const std::string& reason) {
    Process trainer = job.start_trainer("job", shape, 0, free_ports(shape.ports()), flags);
    EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kUsage));
    EXPECT_NE(trainer.output().find(reason), std::string::npos) << trainer.output();
  };
  job.write_ngram(3, 10);
  expect_refused({.trainers = 3, .pservers = 0}, {"--pservers="},
                 "--pservers is empty, but the sparse table of layer 'e0' needs pservers");
  expect_refused(
      kServers,
      {"--set=strategy.dense=collective", "--trainers=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
      "--ports_num=1, but [strategy] dense = 'collective' has no dense ports");
}

}  // namespace
}  // namespace paddle::test
