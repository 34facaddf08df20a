// Groups whose ranks add up on each host first, over seeds of hosts, delays, stalls, kills and
// cuts.
#include "tests/sim/collective/expectations.h"
#include "tests/sim/seeds.h"

namespace paddle::sim {
namespace {

using collective::Pattern;

constexpr std::uint64_t kLevelSeeds = 400;

WorldOptions on_hosts(std::uint64_t seed) {
  WorldOptions options = of(seed);
  Rng rng(hash_combine(seed, 1));
  options.hosts = some_hosts(options.ranks, rng);
  return options;
}

TEST(LevelsSim, EveryRankHasTheSumsOfHostsForEverySeed) {
  std::uint64_t levelled = 0;
  const std::uint64_t seeds = for_seeds(kLevelSeeds, [&](std::uint64_t seed) {
    const WorldOptions options = on_hosts(seed);
    World world(options);
    const WorldOutcome outcome = world.run();
    expect_all_done(outcome, options);
    if (world.has_levels()) ++levelled;
  });
  EXPECT_GE(2 * levelled, seeds);
}

// The point of it: (1 - 1/h) of the bucket leaves a host each way, whatever the number of ranks.
TEST(LevelsSim, ABucketLeavesItsHostOnce) {
  for (const std::vector<std::uint64_t>& hosts : {std::vector<std::uint64_t>{0, 0, 1, 1},
                                                  {0, 0, 0, 0, 1, 1, 1, 1},
                                                  {0, 1, 0, 1, 0},
                                                  {0, 0, 0, 1, 2, 1, 2, 1}}) {
    WorldOptions options{.ranks = static_cast<std::uint32_t>(hosts.size()),
                         .steps = 3,
                         .bucket_floats = 96 * 1024,
                         .hosts = hosts};
    const WorldOutcome outcome = World(options).run();
    expect_all_done(outcome, options);
    const std::uint64_t count = *std::ranges::max_element(hosts) + 1;
    EXPECT_EQ(outcome.bytes_between_hosts,
              options.steps * 2 * (count - 1) * options.bucket_floats * sizeof(float))
        << hosts.size() << " ranks";
  }
}

TEST(LevelsSim, ARankThatDiesInTheMiddleOfAnyPhaseIsNamedByAllOthers) {
  for (const Pattern pattern : {Pattern::kReduceOnHost, Pattern::kReduceBetween,
                                Pattern::kGatherBetween, Pattern::kGatherOnHost}) {
    for_seeds(kLevelSeeds / 10, [&](std::uint64_t seed) {
      WorldOptions options{.seed = seed,
                           .ranks = 7,
                           .steps = 50,
                           .bucket_floats = 40'000,
                           .hosts = {0, 0, 0, 1, 1, 1, 1}};
      options.victim = static_cast<std::uint32_t>(seed % 6);  // an owner
      options.dies_in = pattern;
      const WorldOutcome outcome = World(options).run();
      expect_no_wrong_sum(outcome);
      EXPECT_EQ(outcome.faulty, std::set<std::uint32_t>{options.victim});
      expect_all_know(outcome);
      for (const RankOutcome& rank : outcome.ranks) EXPECT_LE(rank.steps, 2U);
    });
  }
}

TEST(LevelsSim, KilledRanksAreNamedByEverySurvivorAndNoSumIsWrong) {
  for_seeds(kLevelSeeds, [](std::uint64_t seed) {
    const WorldOutcome outcome = World(with_kills(on_hosts(seed))).run();
    expect_no_wrong_sum(outcome);
    expect_all_know(outcome);
  });
}

TEST(LevelsSim, ACutLinkEndsTheGroupOnAllRanksWithBothItsEndsNamed) {
  for_seeds(kLevelSeeds / 2, [](std::uint64_t seed) {
    const WorldOutcome outcome = World(with_a_cut(on_hosts(seed))).run();
    expect_no_wrong_sum(outcome);
    expect_all_know(outcome);
    expect_both_ends_named(outcome);
  });
}

TEST(LevelsSim, DuplicatedFramesEndTheGroupAndNeverASumWrong) {
  for_seeds(kLevelSeeds / 2, [](std::uint64_t seed) {
    WorldOptions options = on_hosts(seed);
    options.duplicate = 0.002;
    const WorldOutcome outcome = World(options).run();
    expect_no_wrong_sum(outcome);
    for (const RankOutcome& rank : outcome.ranks) {
      if (rank.failure) {
        EXPECT_EQ(rank.failure->code, Errc::kUsage) << rank.failure->message;
      }
    }
  });
}

}  // namespace
}  // namespace paddle::sim
