// Jobs that make savepoints: a pserver's death takes all back by seconds, and nothing is lost or
// doubled.
#include <algorithm>

#include "tests/sim/cluster.h"
#include "tests/sim/faults.h"
#include "tests/sim/seeds.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kSavepointSeeds =
    700;  // of each strategy; the rarest planted bug dies at 674
constexpr std::uint64_t kFewSavepointSeeds = 100;
constexpr std::initializer_list<FaultKind> kAllFaults{
    FaultKind::kKillTrainer,  FaultKind::kKillPserver,  FaultKind::kKillPserver,
    FaultKind::kKillPserver,  FaultKind::kKillBoth,     FaultKind::kKillAll,
    FaultKind::kCut,          FaultKind::kCutToServer,  FaultKind::kCutToTrainer,
    FaultKind::kStallTrainer, FaultKind::kStallPserver, FaultKind::kFillDisk,
};

// One to four trainers, by `shape`.
ClusterOptions with_savepoints(std::uint64_t seed, wire::Strategy strategy, std::uint64_t shape) {
  static const std::vector<std::uint32_t> kBatches[] = {{4}, {5, 7}, {6, 2, 7}, {5, 6, 2, 4}};
  ClusterOptions options{
      .seed = seed, .strategy = strategy, .batches = kBatches[shape % 4], .passes = 4};
  options.pservers = 2 + static_cast<std::uint32_t>(shape / 4 % 2);
  options.restarts = true;
  options.grace = std::chrono::seconds(600);
  options.push_parts = 1 + static_cast<std::uint32_t>(seed % 2);
  if (options.push_parts == 1) options.ghosts = 0.02;
  options.snapshot_seconds = 1;
  options.defers_savepoints = seed / 2 % 2 == 0;
  options.loses_power = seed / 4 % 2 == 0;
  return options;
}

ClusterOptions struck(std::uint64_t seed, wire::Strategy strategy, std::uint64_t shape,
                      std::initializer_list<FaultKind> kinds) {
  ClusterOptions options = with_savepoints(seed, strategy, shape);
  options.forgets = 0.1;
  options.breaks = 0.1;
  options.breaks_max = 3;
  options.faults = random_faults(seed, static_cast<std::uint32_t>(options.batches.size()),
                                 options.pservers, kinds);
  return options;
}

// Shapes are of one to four trainers, and of two or three pservers.
constexpr std::uint64_t kShapes = 8;

void expect_rollback(std::uint64_t run, std::uint64_t goes_back) {
  EXPECT_TRUE(run < kFewSavepointSeeds || goes_back > run);
}

TEST(SavepointsSim, SyncEndsWithTheBitsOfACalmRun) {
  std::vector<std::vector<float>> calm(kShapes);
  std::uint64_t goes_back = 0;
  const std::uint64_t run = for_seeds(kSavepointSeeds, [&](std::uint64_t seed) {
    const std::uint64_t shape = seed % kShapes;
    if (calm[shape].empty()) {
      calm[shape] = Cluster(with_savepoints(1, wire::STRATEGY_SYNC, shape)).run().shared;
    }
    const Outcome outcome = Cluster(struck(seed, wire::STRATEGY_SYNC, shape, kAllFaults)).run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.shared, calm[shape]);
    goes_back += outcome.goes_back;
  });
  expect_rollback(run, goes_back);
}

TEST(SavepointsSim, AsyncAppliesEveryBatchOnce) {
  std::uint64_t goes_back = 0;
  const std::uint64_t run = for_seeds(kSavepointSeeds, [&](std::uint64_t seed) {
    const Outcome outcome =
        Cluster(struck(seed, wire::STRATEGY_ASYNC, seed % kShapes, kAllFaults)).run();
    ASSERT_EQ(outcome.error, "");
    goes_back += outcome.goes_back;
  });
  expect_rollback(run, goes_back);
}

TEST(SavepointsSim, DenseOrRowsInRoundsAndTheOthersAtOnceApplyEveryBatchOnce) {
  std::uint64_t goes_back = 0;
  const std::uint64_t run = for_seeds(kSavepointSeeds, [&](std::uint64_t seed) {
    const bool dense_in_rounds = seed / kShapes % 2 == 0;
    ClusterOptions options =
        struck(seed, dense_in_rounds ? wire::STRATEGY_SYNC : wire::STRATEGY_ASYNC, seed % kShapes,
               kAllFaults);
    options.sparse_strategy = dense_in_rounds ? wire::STRATEGY_ASYNC : wire::STRATEGY_SYNC;
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    goes_back += outcome.goes_back;
  });
  expect_rollback(run, goes_back);
}

TEST(SavepointsSim, MergedPushesCountEveryBatchOnce) {
  for_seeds(kFewSavepointSeeds, [&](std::uint64_t seed) {
    const auto strategy = seed % 2 == 0 ? wire::STRATEGY_HALF_ASYNC : wire::STRATEGY_GEO;
    ClusterOptions options = struck(seed, strategy, seed % kShapes, kAllFaults);
    options.max_merge = 1 + static_cast<std::uint32_t>(seed % 3);
    options.send_queue_size = 1 + static_cast<std::uint32_t>(seed / 3 % 2);
    ASSERT_EQ(Cluster(options).run().error, "");
  });
}

// Every few seconds all ports in rounds have a new savepoint, and one of another strategy its own:
// a round takes some 200 ms, and telling of a savepoint four.
TEST(SavepointsSim, ACalmJobMakesSavepointsAllTheTime) {
  for_seeds(kFewSavepointSeeds, [](std::uint64_t seed) {
    for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
      ClusterOptions options = with_savepoints(seed, strategy, seed % kShapes);
      options.passes = 8;
      options.drop = options.duplicate = 0;
      const Outcome outcome = Cluster(options).run();
      ASSERT_EQ(outcome.error, "");
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(outcome.time).count();
      const auto savepoints = strategy == wire::STRATEGY_SYNC
                                  ? outcome.common_savepoints
                                  : outcome.savepoints / (2 * std::uint64_t{options.pservers});
      EXPECT_GE(5 * savepoints, static_cast<std::uint64_t>(seconds)) << seed << ' ' << savepoints;
    }
  });
}

// If a process dies when all ports have a savepoint, no snapshot is loaded, and no other process is
// started again.
TEST(SavepointsSim, APserversDeathTakesNobodyBackToASnapshot) {
  std::uint64_t goes_back = 0;
  const std::uint64_t run = for_seeds(kSavepointSeeds, [&](std::uint64_t seed) {
    const auto strategy = seed % 2 == 0 ? wire::STRATEGY_SYNC : wire::STRATEGY_ASYNC;
    ClusterOptions options = with_savepoints(seed, strategy, seed % kShapes);
    options.drop = 0;  // all have begun soon
    options.faults =
        random_faults(seed, static_cast<std::uint32_t>(options.batches.size()), options.pservers,
                      {FaultKind::kKillPserver}, std::chrono::milliseconds(2500));
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.loads, 0U);
    EXPECT_LE(outcome.pserver_restarts, options.faults.size());
    goes_back += outcome.goes_back;
  });
  EXPECT_TRUE(run < kFewSavepointSeeds || goes_back > run / 2);
}

// Those who are left learn from the other pservers that the job is over, and nobody goes back.
TEST(SavepointsSim, APserverThatDiesWhenTrainersLeaveKeepsNobody) {
  std::uint64_t leaves_over = 0;
  const std::uint64_t run = for_seeds(kFewSavepointSeeds, [&](std::uint64_t seed) {
    const auto strategy = seed % 2 == 0 ? wire::STRATEGY_SYNC : wire::STRATEGY_ASYNC;
    ClusterOptions options = with_savepoints(seed, strategy, 1 + seed % 3);
    options.passes = 2;
    options.ghosts = 0;
    options.dies_at_end = true;
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    EXPECT_LT(outcome.time, std::chrono::minutes(2));
    leaves_over += outcome.leaves_over;
  });
  EXPECT_TRUE(run < kFewSavepointSeeds || leaves_over > run / 4) << leaves_over;
}

// A savepoint that is too many passes old is worth nothing: ports remember the ends of a few.
TEST(SavepointsSim, ADiskThatStaysFullForManyPassesCostsSavepointsAndNotTheJob) {
  std::uint64_t loads = 0;
  const std::uint64_t run = for_seeds(kFewSavepointSeeds, [&](std::uint64_t seed) {
    ClusterOptions options = with_savepoints(seed, wire::STRATEGY_ASYNC, seed % kShapes);
    options.batches.assign(options.batches.size(), 1);
    options.passes = 12;
    options.drop = options.ghosts = 0;
    const auto kill_at = std::chrono::milliseconds(1500 + 50 * (seed % 50));
    options.faults = {{.at = std::chrono::milliseconds(300),
                       .lasts = std::chrono::seconds(8),
                       .kind = FaultKind::kFillDisk,
                       .pserver = 1},
                      {.at = kill_at, .kind = FaultKind::kKillPserver, .pserver = 1}};
    const Outcome outcome = Cluster(options).run();
    ASSERT_EQ(outcome.error, "");
    loads += outcome.loads;
  });
  EXPECT_TRUE(run < kFewSavepointSeeds || loads > 0);
}

TEST(SavepointsSim, OneSeedIsOneHistory) {
  for_seeds(20, [](std::uint64_t seed) {
    const ClusterOptions options = struck(seed, wire::STRATEGY_SYNC, seed % kShapes, kAllFaults);
    ASSERT_EQ(Cluster(options).run().history, Cluster(options).run().history);
  });
}

}  // namespace
}  // namespace paddle::sim
