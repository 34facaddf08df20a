// Jobs that faults strike: every process comes back, and the end is that of a calm run.
#include <algorithm>

#include "tests/sim/cluster.h"
#include "tests/sim/faults.h"
#include "tests/sim/seeds.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kSeedsOfStrategy = 1000;
constexpr std::uint64_t kFewSeeds = 200;
constexpr std::initializer_list<FaultKind> kAllKinds{
    FaultKind::kKillTrainer,  FaultKind::kKillPserver,  FaultKind::kKillAll,
    FaultKind::kCut,          FaultKind::kCutToServer,  FaultKind::kCutToTrainer,
    FaultKind::kStallTrainer, FaultKind::kStallPserver,
};

ClusterOptions restarted(std::uint64_t seed, wire::Strategy strategy) {
  ClusterOptions options{.seed = seed, .strategy = strategy, .batches = {2, 3, 1, 2}, .passes = 3};
  options.restarts = true;
  options.grace = std::chrono::seconds(600);
  options.forgets = 0.1;
  options.push_parts = 1 + static_cast<std::uint32_t>(seed % 2);
  if (options.push_parts == 1) options.ghosts = 0.02;
  if (strategy == wire::STRATEGY_ASYNC && seed % 2 == 0) {
    options.staleness_max = static_cast<std::uint32_t>(seed % 3);
  }
  if (strategy == wire::STRATEGY_HALF_ASYNC || strategy == wire::STRATEGY_GEO) {
    options.max_merge = 1 + static_cast<std::uint32_t>(seed % 3);
    options.send_queue_size = 1 + static_cast<std::uint32_t>(seed / 3 % 2);
    if (seed % 4 == 0) options.staleness_max = static_cast<std::uint32_t>(seed % 3);
  }
  return options;
}

ClusterOptions with_faults(std::uint64_t seed, wire::Strategy strategy,
                           std::initializer_list<FaultKind> kinds) {
  ClusterOptions options = restarted(seed, strategy);
  options.faults = random_faults(seed, 4, options.pservers, kinds);
  return options;
}

std::vector<float> calm_values(wire::Strategy strategy) {
  return Cluster(restarted(1, strategy)).run().shared;
}

// Sums over the seeds of a test, which show that it tests anything.
struct Sums {
  std::uint64_t loads = 0;
  std::uint64_t lone_returns = 0;
  std::uint64_t repeated_pushes = 0;
  std::uint64_t fenced = 0;

  void add(const Outcome& one) {
    loads += one.loads;
    lone_returns += one.lone_returns;
    repeated_pushes += one.repeated_pushes;
    fenced += one.fenced;
  }
};

Sums survives_all_faults(wire::Strategy strategy, std::uint64_t seeds) {
  const std::vector<float> calm = calm_values(strategy);
  const bool has_one_end = strategy == wire::STRATEGY_SYNC;
  Sums sums;
  const std::uint64_t run = for_seeds(seeds, [&](std::uint64_t seed) {
    const Outcome outcome = Cluster(with_faults(seed, strategy, kAllKinds)).run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_TRUE(!has_one_end || outcome.shared == calm);
    sums.add(outcome);
  });
  if (run >= kFewSeeds) {
    EXPECT_GT(sums.loads, 0U);
    EXPECT_GT(sums.fenced, 0U);
    EXPECT_GT(sums.lone_returns, 0U);
  }
  return sums;
}

TEST(RecoverySim, SyncEndsWithTheBitsOfACalmRun) {
  const Sums sums = survives_all_faults(wire::STRATEGY_SYNC, kSeedsOfStrategy);
  if (sums.lone_returns > kFewSeeds) {
    EXPECT_GT(sums.repeated_pushes, 0U);
  }
}

TEST(RecoverySim, AsyncAppliesEveryBatchOnce) {
  survives_all_faults(wire::STRATEGY_ASYNC, kSeedsOfStrategy);
}

TEST(RecoverySim, HalfAsyncAppliesEveryBatchOnce) {
  survives_all_faults(wire::STRATEGY_HALF_ASYNC, kSeedsOfStrategy);
}

TEST(RecoverySim, GeoAppliesEveryBatchOnce) {
  survives_all_faults(wire::STRATEGY_GEO, kFewSeeds);
}

TEST(RecoverySim, WithNodeGroupsAllGoBackToTheSnapshotAfterAnyFault) {
  const std::vector<float> calm = calm_values(wire::STRATEGY_SYNC);
  std::uint64_t loads = 0;
  const std::uint64_t run = for_seeds(kFewSeeds, [&](std::uint64_t seed) {
    ClusterOptions options = with_faults(seed, wire::STRATEGY_SYNC, kAllKinds);
    options.node_groups = true;
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.shared, calm);
    loads += outcome.loads;
  });
  if (run >= kFewSeeds) {
    EXPECT_GT(loads, 0U);
  }
}

TEST(RecoverySim, AfterAPserversDeathAllGoBackToTheSnapshot) {
  const std::vector<float> calm = calm_values(wire::STRATEGY_SYNC);
  std::uint64_t loads = 0;
  const std::uint64_t run = for_seeds(kSeedsOfStrategy, [&](std::uint64_t seed) {
    const Outcome outcome = Cluster(with_faults(seed, wire::STRATEGY_SYNC,
                                                {FaultKind::kKillPserver, FaultKind::kKillAll}))
                                .run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.shared, calm);
    loads += outcome.loads;
  });
  if (run >= kFewSeeds) {
    EXPECT_GT(loads, 0U);
  }
}

// Nobody is started but those who were killed, and nothing is loaded.
TEST(RecoverySim, AKilledTrainerComesBackAlone) {
  constexpr wire::Strategy kStrategies[] = {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC,
                                            wire::STRATEGY_HALF_ASYNC, wire::STRATEGY_GEO};
  std::uint64_t returns = 0;
  const std::uint64_t run = for_seeds(kSeedsOfStrategy, [&](std::uint64_t seed) {
    ClusterOptions options = restarted(seed, kStrategies[seed % 4]);
    options.drop = 0;  // all have begun soon
    options.forgets = 0;
    options.grace = std::chrono::seconds(2);  // shorter than the job, longer than a start
    options.faults = random_faults(seed, 4, options.pservers, {FaultKind::kKillTrainer},
                                   std::chrono::milliseconds(400));
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.pserver_restarts, 0U);
    EXPECT_EQ(outcome.trainer_restarts, outcome.trainer_kills);
    EXPECT_EQ(outcome.loads, 0U);
    returns += outcome.lone_returns;
  });
  EXPECT_TRUE(run < kFewSeeds || returns > run / 2);
}

// The others do not wait longer than the grace: all go back.
TEST(RecoverySim, ATrainerThatComesBackTooLateTakesAllBackToTheSnapshot) {
  const std::vector<float> calm = calm_values(wire::STRATEGY_SYNC);
  std::uint64_t pserver_restarts = 0;
  const std::uint64_t run = for_seeds(kFewSeeds, [&](std::uint64_t seed) {
    ClusterOptions options = with_faults(seed, wire::STRATEGY_SYNC, {FaultKind::kKillTrainer});
    options.grace = std::chrono::milliseconds(200);
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.shared, calm);
    pserver_restarts += outcome.pserver_restarts;
  });
  EXPECT_TRUE(run < kFewSeeds || pserver_restarts > run / 2);
}

TEST(RecoverySim, OneSeedIsOneHistory) {
  for_seeds(20, [](std::uint64_t seed) {
    for (const auto strategy :
         {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC, wire::STRATEGY_HALF_ASYNC}) {
      const Outcome first = Cluster(with_faults(seed, strategy, kAllKinds)).run();
      const Outcome second = Cluster(with_faults(seed, strategy, kAllKinds)).run();
      ASSERT_EQ(first.history, second.history);
      ASSERT_EQ(first.shared, second.shared);
    }
  });
}

}  // namespace
}  // namespace paddle::sim
