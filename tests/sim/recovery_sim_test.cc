// Jobs that faults strike: every process comes back, and the end is that of a calm run.
#include "tests/sim/cluster.h"
#include "tests/sim/faults.h"
#include "tests/sim/seeds.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kRecoverySeeds = 500;

ClusterOptions restarted(std::uint64_t seed, wire::Strategy strategy,
                         std::initializer_list<FaultKind> kinds) {
  ClusterOptions options{.seed = seed, .strategy = strategy, .batches = {2, 3, 1, 2}, .passes = 3};
  options.restarts = true;
  options.ghosts = 0.02;
  options.faults = random_faults(seed, 4, options.pservers, kinds);
  return options;
}

std::vector<float> calm_values(wire::Strategy strategy) {
  ClusterOptions options = restarted(1, strategy, {FaultKind::kKillAll});
  options.faults.clear();
  return Cluster(options).run().shared;
}

TEST(RecoverySim, AfterAPserversDeathAllGoBackToTheSnapshotWithTheSameBits) {
  const std::vector<float> expected = calm_values(wire::STRATEGY_SYNC);
  std::uint64_t loads = 0;
  for_seeds(kRecoverySeeds, [&](std::uint64_t seed) {
    const Outcome outcome = Cluster(restarted(seed, wire::STRATEGY_SYNC,
                                              {FaultKind::kKillPserver, FaultKind::kKillAll}))
                                .run();
    ASSERT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.shared, expected);
    loads += outcome.loads;
  });
  EXPECT_GT(loads, 0U);
}

}  // namespace
}  // namespace paddle::sim
