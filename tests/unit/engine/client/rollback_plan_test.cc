#include <gtest/gtest.h>

#include "engine/client/savepoints.h"

namespace paddle::client {
namespace {

using Savepoint = std::optional<std::uint64_t>;
using All = std::vector<Savepoint>;
using Savepoints = std::optional<All>;

struct Shard {
  bool runs = false;
  bool in_rounds = true;
  std::vector<std::uint64_t> savepoints = {};
};

RollbackPlan rollback(const std::vector<Shard>& shards) {
  RollbackPlan rollback;
  for (const Shard& shard : shards) {
    wire::Position position;
    position.set_ready(shard.runs);
    position.set_has_rounds(shard.in_rounds);
    for (const std::uint64_t savepoint : shard.savepoints) position.add_savepoints(savepoint);
    rollback.add(position);
  }
  return rollback;
}
Savepoints savepoints(const std::vector<Shard>& shards) {
  return rollback(shards).savepoints();
}

constexpr bool kRuns = true;
constexpr bool kLost = false;
constexpr bool kRounds = true;
constexpr bool kAsync = false;

TEST(RollbackPlan, NobodyGoesBackInAJobThatRuns) {
  const std::vector<Shard> shards{{kRuns, kRounds, {1, 5}}, {kRuns, kAsync, {1, 7}}};
  EXPECT_TRUE(rollback(shards).all_run());
  EXPECT_FALSE(rollback(shards).none_runs());
  EXPECT_EQ(savepoints(shards), (All{{}, {}}));
}

TEST(RollbackPlan, AJobWithoutSavepointsBeginsAnew) {
  const std::vector<Shard> shards{{kLost}, {kLost, kAsync}};
  EXPECT_FALSE(rollback(shards).all_run());
  EXPECT_TRUE(rollback(shards).none_runs());
  EXPECT_EQ(savepoints(shards), Savepoints());
}

TEST(RollbackPlan, AllInRoundsGoBackToTheNewestSavepointThatEachHas) {
  EXPECT_EQ(savepoints({{kRuns, kRounds, {1, 5, 9}}, {kLost, kRounds, {1, 5}}}), (All{5, 5}));
  EXPECT_EQ(
      savepoints({{kLost, kRounds, {1, 9}}, {kRuns, kRounds, {1, 5, 9}}, {kRuns, kRounds, {1, 5}}}),
      (All{1, 1, 1}));
  EXPECT_EQ(savepoints({{kLost, kRounds, {5}}, {kLost, kRounds, {5, 9}}}), (All{5, 5}));
}

TEST(RollbackPlan, ThereIsNoneInRoundsWithoutASavepointThatAllHave) {
  EXPECT_EQ(savepoints({{kRuns, kRounds, {1, 5}}, {kLost, kRounds, {}}}), Savepoints());
  EXPECT_EQ(savepoints({{kRuns, kRounds, {}}, {kLost, kRounds, {5}}}), Savepoints());
  EXPECT_EQ(savepoints({{kRuns, kRounds, {1, 9}}, {kLost, kRounds, {5}}}), Savepoints());
  EXPECT_FALSE(rollback({{kRuns, kRounds, {1}}, {kLost, kRounds, {}}}).none_runs());
}

TEST(RollbackPlan, ALostShardWithoutRoundsGoesBackAlone) {
  EXPECT_EQ(savepoints({{kRuns, kAsync, {1, 5}}, {kLost, kAsync, {1, 3}}}), (All{{}, 3}));
  EXPECT_EQ(savepoints({{kRuns, kAsync, {}}, {kLost, kAsync, {2}}}), (All{{}, 2}));
  EXPECT_EQ(savepoints({{kLost, kAsync, {4}}, {kLost, kAsync, {2}}}), (All{4, 2}));
  EXPECT_EQ(savepoints({{kRuns, kAsync, {1, 5}}, {kLost, kAsync, {}}}), Savepoints());
}

TEST(RollbackPlan, ShardsOfTheOtherKindStayAsTheyAre) {
  EXPECT_EQ(savepoints({{kRuns, kRounds, {1, 5}}, {kRuns, kRounds, {1, 5}}, {kLost, kAsync, {7}}}),
            (All{{}, {}, 7}));
  EXPECT_EQ(savepoints({{kRuns, kRounds, {1, 5}}, {kLost, kRounds, {1}}, {kRuns, kAsync, {7}}}),
            (All{1, 1, {}}));
  EXPECT_EQ(
      savepoints({{kLost, kRounds, {1, 5}}, {kRuns, kRounds, {1, 5}}, {kLost, kAsync, {7, 8}}}),
      (All{5, 5, 8}));
  EXPECT_EQ(savepoints({{kLost, kRounds, {1}}, {kRuns, kRounds, {1}}, {kLost, kAsync, {}}}),
            Savepoints());
}

}  // namespace
}  // namespace paddle::client
