// Worlds by their seeds, and what must come of them.
#pragma once

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/sim/collective/world.h"

namespace paddle::sim {

inline constexpr std::uint32_t kRanks = 64;  // at most
// From a rank's death to the last survivor's knowledge of it; a cut is noticed 1.5 s later.
inline constexpr Duration kKnownWithin = std::chrono::seconds(2);

inline WorldOptions of(std::uint64_t seed) {
  Rng rng(seed);
  WorldOptions options{.seed = seed};
  options.ranks = static_cast<std::uint32_t>(2 + rng.below(rng.below(8) == 0 ? kRanks - 1 : 12));
  options.steps = 1 + rng.below(4);
  options.bucket_floats = 8000 + rng.below(20'000);
  options.stall = 0.1;
  return options;
}

// One or two ranks die at random times.
inline WorldOptions with_kills(WorldOptions options) {
  options.kills = static_cast<std::uint32_t>(1 + options.seed % 2);
  options.steps = options.ranks > 20 ? 5 : 50;
  return options;
}

// Two ranks of a few lose their link.
inline WorldOptions with_a_cut(WorldOptions options) {
  options.cuts = 1;
  options.steps = 1000;
  options.ranks = std::min(options.ranks, 8U);
  if (!options.hosts.empty()) options.hosts.resize(options.ranks);
  return options;
}

inline void expect_no_wrong_sum(const WorldOutcome& outcome) {
  for (const RankOutcome& rank : outcome.ranks) EXPECT_FALSE(rank.has_wrong_sum);
}

inline void expect_all_done(const WorldOutcome& outcome, const WorldOptions& options) {
  expect_no_wrong_sum(outcome);
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const RankOutcome& one = outcome.ranks[rank];
    EXPECT_FALSE(one.failure) << one.failure->message;
    EXPECT_EQ(one.steps, options.steps) << "rank " << rank;
    EXPECT_TRUE(one.has_left);
    EXPECT_EQ(outcome.buckets[rank], outcome.buckets[0]);
  }
}

// Everybody who was there hears in time of a rank that is really gone.
inline void expect_all_know(const WorldOutcome& outcome) {
  if (outcome.faulty.empty()) return;
  for (const RankOutcome& rank : outcome.ranks) {
    if (rank.is_killed || rank.has_left) continue;
    ASSERT_TRUE(rank.failure);
    EXPECT_EQ(rank.failure->code, Errc::kUnreachable) << rank.failure->message;
    EXPECT_LE(rank.failed_at - outcome.first_fault, kKnownWithin);
    const bool is_named = std::ranges::any_of(outcome.faulty, [&](std::uint32_t gone) {
      return rank.failure->message.starts_with("lost rank " + std::to_string(gone) + " (");
    });
    EXPECT_TRUE(is_named) << rank.failure->message;
  }
}

// With the far end of a cut link alone, a user would not know at which machines to look.
inline void expect_both_ends_named(const WorldOutcome& outcome) {
  for (const RankOutcome& rank : outcome.ranks) {
    if (!rank.failure) continue;
    for (const std::uint32_t end : outcome.faulty) {
      const std::string name = "rank " + std::to_string(end) + " (";
      EXPECT_NE(rank.failure->message.find(name), std::string::npos) << rank.failure->message;
    }
  }
}

}  // namespace paddle::sim
