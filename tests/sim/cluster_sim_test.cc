// 2 pservers and 4 trainers over many seeds of a network that delays, reorders, duplicates and
// drops.
#include <gtest/gtest.h>

#include "tests/sim/cluster.h"
#include "tests/sim/seeds.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kSeeds = 1000;
constexpr std::uint64_t kRepeatedSeeds = 20;  // of each strategy, twice
constexpr std::uint64_t kKillSeeds = 200;     // of each strategy

ClusterOptions uneven(std::uint64_t seed, wire::Strategy strategy) {
  return {.seed = seed, .strategy = strategy, .batches = {3, 4, 1, 2}, .passes = 2};
}

void expect_all_ones(const Outcome& outcome, std::uint64_t cells) {
  const std::vector<float> ones(cells, 1.0F);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.ledgers, std::vector<std::vector<float>>(4, ones));
  EXPECT_EQ(outcome.samples, cells);
}

TEST(ClusterSim, SyncAppliesEveryPushOnceWithTheSameWeightsForEverySeed) {
  const auto calm_options = [] {
    ClusterOptions options = uneven(0, wire::STRATEGY_SYNC);
    options.duplicate = options.drop = 0;
    return options;
  }();
  const auto expected = Cluster(calm_options).run().shared;
  std::uint64_t pushes = 0;
  const std::uint64_t seeds = for_seeds(kSeeds, [&](std::uint64_t seed) {
    const Outcome outcome = Cluster(uneven(seed, wire::STRATEGY_SYNC)).run();
    expect_all_ones(outcome, 20);
    EXPECT_EQ(outcome.shared, expected);
    pushes += outcome.pushes_delivered;
  });
  // The network really repeated pushes: without repeats there would be 20 batches on 2 dense ports.
  if (seeds >= kSeeds) {
    EXPECT_GT(pushes, seeds * 20 * 2);
  }
}

TEST(ClusterSim, AsyncAppliesEveryPushOnce) {
  for_seeds(kSeeds, [&](std::uint64_t seed) {
    expect_all_ones(Cluster(uneven(seed, wire::STRATEGY_ASYNC)).run(), 20);
  });
}

TEST(ClusterSim, HalfAsyncAndGeoApplyEveryBatchOnceInMergedPushes) {
  std::uint64_t merged = 0;
  const std::uint64_t seeds = for_seeds(kSeeds, [&](std::uint64_t seed) {
    const auto strategy = seed % 2 == 0 ? wire::STRATEGY_HALF_ASYNC : wire::STRATEGY_GEO;
    ClusterOptions options = uneven(seed, strategy);
    options.max_merge = 1 + static_cast<std::uint32_t>(seed % 3);
    options.send_queue_size = 1 + static_cast<std::uint32_t>(seed % 2);
    const Outcome outcome = Cluster(options).run();
    expect_all_ones(outcome, 20);
    EXPECT_EQ(outcome.batches, 20U);  // merged ones are counted
    EXPECT_EQ(outcome.pushes == 20U, options.max_merge == 1);
    merged += outcome.batches - outcome.pushes;
  });
  if (seeds >= kSeeds) {
    EXPECT_GT(merged, seeds);
  }
}

TEST(ClusterSim, StalenessMaxBlocksTheFastAndDropsNothing) {
  std::uint64_t unbounded = 0;
  const std::uint64_t seeds = for_seeds(kKillSeeds, [&](std::uint64_t seed) {
    for (const auto strategy : {wire::STRATEGY_ASYNC, wire::STRATEGY_HALF_ASYNC}) {
      ClusterOptions options = uneven(seed, strategy);
      options.batches = {9, 9, 9, 2};
      options.passes = 1;
      unbounded = std::max(unbounded, Cluster(options).run().clock_lead);
      options.staleness_max = static_cast<std::uint32_t>(seed % 3);
      const Outcome outcome = Cluster(options).run();
      expect_all_ones(outcome, 29);
      EXPECT_LE(outcome.clock_lead, *options.staleness_max + 1);
    }
  });
  if (seeds >= kKillSeeds) {
    EXPECT_GT(unbounded, 3U);
  }
}

TEST(ClusterSim, AKilledTrainerFailsASyncJobByName) {
  for_seeds(kKillSeeds, [&](std::uint64_t seed) {
    ClusterOptions options = uneven(seed, wire::STRATEGY_SYNC);
    options.killed = 1;
    options.killed_at_batch = static_cast<std::uint32_t>(seed % 4);
    const Outcome outcome = Cluster(options).run();
    EXPECT_NE(outcome.error.find("trainer 1 lost at step"), std::string::npos) << outcome.error;
  });
}

TEST(ClusterSim, AKilledTrainerLeavesTheOthersOfAnAsyncJobAlone) {
  for_seeds(kKillSeeds, [&](std::uint64_t seed) {
    ClusterOptions options = uneven(seed, wire::STRATEGY_ASYNC);
    options.killed = 1;
    options.killed_at_batch = static_cast<std::uint32_t>(seed % 4);
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.ledgers.size(), 4U);
    // Trainer 1's batches are cells 6 to 13. Acknowledged batches stay applied, the ones under way
    // may be applied or not, and nothing follows.
    const std::size_t last = 6 + options.killed_at_batch;
    for (const auto& ledger : outcome.ledgers) {
      for (std::size_t cell = 0; cell < ledger.size(); ++cell) {
        const float value = ledger[cell];
        const bool is_after = cell > last && cell < 14;
        if (cell == last) {
          EXPECT_TRUE(value == 0 || value == 1) << value;
        } else {
          EXPECT_EQ(value, is_after ? 0.0F : 1.0F) << cell;
        }
      }
    }
  });
}

TEST(ClusterSim, OneSeedIsOneHistory) {
  for_seeds(kRepeatedSeeds, [](std::uint64_t seed) {
    for (const auto strategy :
         {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC, wire::STRATEGY_HALF_ASYNC}) {
      const Outcome first = Cluster(uneven(seed, strategy)).run();
      const Outcome second = Cluster(uneven(seed, strategy)).run();
      ASSERT_EQ(first.history, second.history);
      ASSERT_EQ(first.shared, second.shared);
    }
  });
  EXPECT_NE(Cluster(uneven(1, wire::STRATEGY_SYNC)).run().history,
            Cluster(uneven(2, wire::STRATEGY_SYNC)).run().history);
}

// A trainer without further gradients must still release the others.
TEST(ClusterSim, Trap05And14TrainersWithOneBatchOrNoneDoNotHoldTheOthers) {
  for (const auto strategy :
       {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC, wire::STRATEGY_HALF_ASYNC}) {
    ClusterOptions options = uneven(9, strategy);
    options.batches = {250, 250, 250, 1, 0};
    options.passes = 1;
    const Outcome outcome = Cluster(options).run();
    expect_all_ones(outcome, 751);
  }
}

}  // namespace
}  // namespace paddle::sim
