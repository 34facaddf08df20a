#include <gtest/gtest.h>

#include "engine/client/cuts.h"

namespace paddle::client {
namespace {

using Cut = std::optional<std::uint64_t>;
using All = std::vector<Cut>;
using Cuts = std::optional<All>;

struct Shard {
  bool runs = false;
  bool in_rounds = true;
  std::vector<std::uint64_t> cuts = {};
};

WayBack way_back(const std::vector<Shard>& shards) {
  WayBack way_back;
  for (const Shard& shard : shards) {
    wire::Position position;
    position.set_ready(shard.runs);
    position.set_has_rounds(shard.in_rounds);
    for (const std::uint64_t cut : shard.cuts) position.add_cuts(cut);
    way_back.add(position);
  }
  return way_back;
}
Cuts cuts(const std::vector<Shard>& shards) {
  return way_back(shards).cuts();
}

constexpr bool kRuns = true;
constexpr bool kLost = false;
constexpr bool kRounds = true;
constexpr bool kAsync = false;

TEST(WayBack, NobodyGoesBackInAJobThatRuns) {
  const std::vector<Shard> shards{{kRuns, kRounds, {1, 5}}, {kRuns, kAsync, {1, 7}}};
  EXPECT_TRUE(way_back(shards).all_run());
  EXPECT_FALSE(way_back(shards).none_runs());
  EXPECT_EQ(cuts(shards), (All{{}, {}}));
}

TEST(WayBack, AJobWithoutCutsBeginsAnew) {
  const std::vector<Shard> shards{{kLost}, {kLost, kAsync}};
  EXPECT_FALSE(way_back(shards).all_run());
  EXPECT_TRUE(way_back(shards).none_runs());
  EXPECT_EQ(cuts(shards), Cuts());
}

TEST(WayBack, AllInRoundsGoBackToTheNewestCutThatEachHas) {
  EXPECT_EQ(cuts({{kRuns, kRounds, {1, 5, 9}}, {kLost, kRounds, {1, 5}}}), (All{5, 5}));
  EXPECT_EQ(cuts({{kLost, kRounds, {1, 9}}, {kRuns, kRounds, {1, 5, 9}}, {kRuns, kRounds, {1, 5}}}),
            (All{1, 1, 1}));
  EXPECT_EQ(cuts({{kLost, kRounds, {5}}, {kLost, kRounds, {5, 9}}}), (All{5, 5}));
}

TEST(WayBack, ThereIsNoneInRoundsWithoutACutThatAllHave) {
  EXPECT_EQ(cuts({{kRuns, kRounds, {1, 5}}, {kLost, kRounds, {}}}), Cuts());
  EXPECT_EQ(cuts({{kRuns, kRounds, {}}, {kLost, kRounds, {5}}}), Cuts());
  EXPECT_EQ(cuts({{kRuns, kRounds, {1, 9}}, {kLost, kRounds, {5}}}), Cuts());
  EXPECT_FALSE(way_back({{kRuns, kRounds, {1}}, {kLost, kRounds, {}}}).none_runs());
}

TEST(WayBack, ALostShardWithoutRoundsGoesBackAlone) {
  EXPECT_EQ(cuts({{kRuns, kAsync, {1, 5}}, {kLost, kAsync, {1, 3}}}), (All{{}, 3}));
  EXPECT_EQ(cuts({{kRuns, kAsync, {}}, {kLost, kAsync, {2}}}), (All{{}, 2}));
  EXPECT_EQ(cuts({{kLost, kAsync, {4}}, {kLost, kAsync, {2}}}), (All{4, 2}));
  EXPECT_EQ(cuts({{kRuns, kAsync, {1, 5}}, {kLost, kAsync, {}}}), Cuts());
}

TEST(WayBack, ShardsOfTheOtherKindStayAsTheyAre) {
  EXPECT_EQ(cuts({{kRuns, kRounds, {1, 5}}, {kRuns, kRounds, {1, 5}}, {kLost, kAsync, {7}}}),
            (All{{}, {}, 7}));
  EXPECT_EQ(cuts({{kRuns, kRounds, {1, 5}}, {kLost, kRounds, {1}}, {kRuns, kAsync, {7}}}),
            (All{1, 1, {}}));
  EXPECT_EQ(cuts({{kLost, kRounds, {1, 5}}, {kRuns, kRounds, {1, 5}}, {kLost, kAsync, {7, 8}}}),
            (All{5, 5, 8}));
  EXPECT_EQ(cuts({{kLost, kRounds, {1}}, {kRuns, kRounds, {1}}, {kLost, kAsync, {}}}), Cuts());
}

}  // namespace
}  // namespace paddle::client
