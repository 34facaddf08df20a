// Processes that are killed at any moment, pservers among them: only the killed one is started
// again, and the result is that of an undisturbed run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/snapshot/savepoint_folder.h"
#include "tests/e2e/ledger_job.h"
#include "tests/e2e/supervised.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr Ledger kLedger{.trainers = 3, .records = 4000, .passes = 8};
constexpr auto kLimit = std::chrono::seconds(250);
constexpr int kKills = 6;

// More for a night, in more passes: PADDLE_KILLS=200. A kill takes more time than a pass.
constexpr int kKillsInAsManyPasses = 30;
int scaled(int passes) {
  return passes * std::max(1, kills_wanted(kKills) / kKillsInAsManyPasses);
}
std::chrono::seconds limit() {
  return scaled(1) * kLimit;
}

class PserverReturn : public testing::Test {
 protected:
  // Trains as job `name` and kills processes at random moments until enough were killed or all is
  // done. Returns how many pservers were.
  int train_under_kills(const std::string& name, const Shape& shape,
                        const std::vector<std::string>& flags, std::uint64_t seed) {
    const int port = free_ports(static_cast<std::uint16_t>(
        shape.pservers * (shape.ports_num + shape.ports_num_for_sparse)));
    std::vector<std::unique_ptr<Supervised>> all;
    for (int id = 0; id < shape.pservers; ++id) {
      all.push_back(supervised_pserver(job, name, shape, id, port));
      EXPECT_TRUE(all.back()->process().prints("READY pserver"));
    }
    for (int id = 0; id < shape.trainers; ++id) {
      all.push_back(supervised_trainer(job, name, shape, id, port, flags));
    }
    const Supervised& first = *all[static_cast<std::size_t>(shape.pservers)];
    const bool has_begun = first.process().prints("Pass=0 Batch=", kLimit);
    EXPECT_TRUE(has_begun) << first.process().output();
    if (!has_begun) return 0;
    // A pserver that is lost before its first savepoint ends the run.
    for (int id = 0; id < shape.pservers; ++id) {
      const auto give_up = std::chrono::steady_clock::now() + limit();
      while (!has_savepoints(name, shape, id) && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    std::vector<int> kills(all.size());
    Rng rng(seed);
    for (int i = 0; i < kills_wanted(kKills); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + rng.below(250)));
      const std::uint64_t victim = i % 2 == 0
                                       ? rng.below(static_cast<std::uint64_t>(shape.pservers))
                                       : rng.below(all.size());
      if (std::ranges::any_of(all, [](const auto& one) { return one->has_ended(); })) break;
      all[victim]->kill_and_start();
      ++kills[victim];
    }
    for (std::size_t i = all.size(); i-- > 0;) {
      EXPECT_EQ(all[i]->wait(limit()), 0) << all[i]->process().output();
      EXPECT_EQ(all[i]->incarnation(), 1 + kills[i]) << "only what is killed is started again";
    }
    int pservers = 0;
    for (int id = 0; id < shape.pservers; ++id) pservers += kills[static_cast<std::size_t>(id)];
    std::printf("killed %d pservers\n", pservers);
    return pservers;
  }

  // Whether each port of the pserver has written one whole.
  bool has_savepoints(const std::string& name, const Shape& shape, int id) const {
    const std::string folder = job.folder() / fmt::format("{}-savepoints/pserver-{}", name, id);
    std::error_code error;
    int ports = 0;
    for (const auto& port : std::filesystem::directory_iterator(folder, error)) {
      const auto directory = snapshot::kernel_file_system().open_directory(port.path());
      for (const auto& file : std::filesystem::directory_iterator(port.path(), error)) {
        auto reader = snapshot::SavepointFileReader::open(**directory, file.path().filename());
        Result<bool> more = static_cast<bool>(reader);
        while (reader && more && *more) more = reader->next();
        if (!reader || !more) continue;
        ++ports;
        break;
      }
    }
    return ports == shape.ports_of_pserver();
  }

  Job job;
};

TEST_F(PserverReturn, SyncEndsWithTheSameBitsAndTotals) {
  job.write_clicks(3, 3000);
  const Shape shape{.trainers = 3, .pservers = 2, .ports_num = 2, .ports_num_for_sparse = 2};
  const std::vector<std::string> flags{
      fmt::format("--num_passes={}", scaled(8)), "--set=train.batch_size=8", "--log_period=10",
      "--set=train.snapshots_kept=0", "--set=train.snapshot_seconds=1"};
  ASSERT_TRUE(job.run("whole", shape, flags, limit()));
  EXPECT_GE(train_under_kills("killed", shape, flags, 1), 2);
  for (int pass = 0; pass < scaled(8); ++pass) {
    EXPECT_TRUE(job.snapshot("whole", pass) == job.snapshot("killed", pass)) << pass;
  }
  // Evaluators count what came before a kill once, too.
  EXPECT_EQ(totals_of(job.output("killed", 0)), totals_of(job.output("whole", 0)));
}

class PserverReturnExactlyOnce
    : public PserverReturn,
      public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(PserverReturnExactlyOnce, EveryRecordIsAppliedOncePerPass) {
  write_ledger(job, kLedger);
  const Shape shape{.trainers = kLedger.trainers, .pservers = 2};
  const auto [dense, sparse] = GetParam();
  std::vector<std::string> flags{fmt::format("--num_passes={}", scaled(kLedger.passes)),
                                 "--set=train.snapshots_kept=0",
                                 "--set=train.batch_size=4",
                                 "--set=train.snapshot_seconds=1",
                                 "--log_period=20",
                                 fmt::format("--set=strategy.dense={}", dense),
                                 fmt::format("--set=strategy.sparse={}", sparse)};
  if (std::string_view(sparse) == "geo") flags.emplace_back("--set=strategy.update_frequency=7");
  EXPECT_GE(train_under_kills("job", shape, flags, 2), 2);
  for (int pass = 0; pass < scaled(kLedger.passes); ++pass) {
    const std::string snapshot = fmt::format("{}/pass-{:05}", job.save_dir("job"), pass);
    EXPECT_EQ(
        shows(snapshot),
        (std::map<float, int>{{static_cast<float>(pass + 1), kLedger.trainers * kLedger.records}}))
        << snapshot;
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, PserverReturnExactlyOnce,
                         testing::Values(std::pair("sync", "sync"), std::pair("async", "async"),
                                         std::pair("half_async", "half_async"),
                                         std::pair("geo", "geo"), std::pair("sync", "async"),
                                         std::pair("async", "sync")),
                         [](const auto& strategies) {
                           return fmt::format("{}_{}", strategies.param.first,
                                              strategies.param.second);
                         });

}  // namespace
}  // namespace paddle::test
