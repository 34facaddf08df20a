// Groups of up to 64 ranks over a thousand seeds of delays, stalls, duplicates, kills and cuts.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/sim/collective/expectations.h"
#include "tests/sim/seeds.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kSeeds = 1000;
// Runs of 64 ranks, beside those among kSeeds. `scripts/sim 1000 'CollectiveSim.*'` runs as many of
// each.
constexpr std::uint64_t kLargeSeeds = 100;

TEST(CollectiveSim, EveryRankHasTheSumsOfEveryStepForEverySeed) {
  for_seeds(kSeeds, [](std::uint64_t seed) {
    const WorldOptions options = of(seed);
    expect_all_done(World(options).run(), options);
  });
}

TEST(CollectiveSim, PackedBucketsHaveTheSumsOfTheirRoundedTermsInHalfTheBytes) {
  for_seeds(kSeeds / 10, [](std::uint64_t seed) {
    WorldOptions options = of(seed);
    options.bucket_floats += collective::whole_bytes_max(options.ranks) / sizeof(float);
    const std::uint64_t bytes = World(options).run().segment_bytes;
    options.is_packed = true;
    const WorldOutcome outcome = World(options).run();
    expect_all_done(outcome, options);
    EXPECT_GT(bytes, 0U);
    EXPECT_EQ(2 * outcome.segment_bytes, bytes);
  });
}

TEST(CollectiveSim, PackedSegmentsOfKilledRanksMakeNoSumWrong) {
  for_seeds(kSeeds / 4, [](std::uint64_t seed) {
    WorldOptions options = with_kills(of(seed));
    options.bucket_floats += collective::whole_bytes_max(options.ranks) / sizeof(float);
    options.is_packed = true;
    const WorldOutcome outcome = World(options).run();
    expect_no_wrong_sum(outcome);
    expect_all_know(outcome);
  });
}

TEST(CollectiveSim, SixtyFourRanksTrainTogether) {
  for_seeds(kLargeSeeds, [](std::uint64_t seed) {
    WorldOptions options = of(seed);
    options.ranks = kRanks;
    options.steps = 1 + seed % 2;
    options.bucket_floats = 8200;
    const WorldOutcome outcome = World(options).run();
    expect_all_done(outcome, options);
    EXPECT_LE(outcome.held_max, 5U);
  });
}

TEST(CollectiveSim, SixtyFourRanksHearWhomTheyLost) {
  std::uint64_t failed = 0;
  const std::uint64_t seeds = for_seeds(kLargeSeeds / 4, [&](std::uint64_t seed) {
    WorldOptions options = of(seed);
    options.ranks = kRanks;
    options.steps = 1000;
    options.bucket_floats = 8200;
    const bool is_cut = seed % 2 == 0;
    options.kills = is_cut ? 0 : static_cast<std::uint32_t>(1 + seed % 3);
    options.cuts = is_cut ? 1 : 0;
    const WorldOutcome outcome = World(options).run();
    expect_no_wrong_sum(outcome);
    expect_all_know(outcome);
    if (is_cut) expect_both_ends_named(outcome);
    for (const RankOutcome& rank : outcome.ranks) failed += rank.failure ? 1 : 0;
  });
  EXPECT_GE(failed, seeds * (kRanks - 3));
}

TEST(CollectiveSim, Trap02KilledRanksAreNamedByEverySurvivorAndNoSumIsWrong) {
  std::uint64_t failed = 0;
  const std::uint64_t seeds = for_seeds(kSeeds, [&](std::uint64_t seed) {
    const WorldOutcome outcome = World(with_kills(of(seed))).run();
    expect_no_wrong_sum(outcome);
    expect_all_know(outcome);
    for (const RankOutcome& rank : outcome.ranks) failed += rank.failure ? 1 : 0;
  });
  EXPECT_GT(failed, seeds);
}

TEST(CollectiveSim, ACutLinkEndsTheGroupOnAllRanksWithBothItsEndsNamed) {
  for_seeds(kSeeds / 2, [](std::uint64_t seed) {
    const WorldOutcome outcome = World(with_a_cut(of(seed))).run();
    expect_no_wrong_sum(outcome);
    expect_all_know(outcome);
    expect_both_ends_named(outcome);
  });
}

TEST(CollectiveSim, Trap18DuplicatedFramesEndTheGroupAndNeverASumWrong) {
  std::uint64_t duplicates = 0;
  std::uint64_t refused = 0;
  const std::uint64_t seeds = for_seeds(kSeeds, [&](std::uint64_t seed) {
    WorldOptions options = of(seed);
    options.duplicate = 0.002;
    const WorldOutcome outcome = World(options).run();
    expect_no_wrong_sum(outcome);
    duplicates += outcome.duplicates;
    for (const RankOutcome& rank : outcome.ranks) {
      if (rank.failure) ++refused;
      if (rank.failure && rank.failure->code != Errc::kUsage) {
        ADD_FAILURE() << rank.failure->message;
      }
    }
  });
  EXPECT_GT(duplicates, seeds / 10);
  EXPECT_GT(refused, 0U);
}

TEST(CollectiveSim, OneSeedGivesOneRun) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const WorldOutcome first = World(of(seed)).run();
    const WorldOutcome again = World(of(seed)).run();
    EXPECT_EQ(first.frames, again.frames);
    EXPECT_EQ(first.buckets, again.buckets);
  }
}

}  // namespace
}  // namespace paddle::sim
