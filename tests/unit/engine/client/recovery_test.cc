#include "engine/client/recovery.h"

#include <gtest/gtest.h>

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

TEST(LinkPositions, PositionsOfAJobAreInTheOrderInWhichTheyCome) {
  // Two batches, a stop in the pass; the end of the pass, two meetings, a batch.
  const TrainerPosition course[] = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 1, 2},
                                    {1, 0, 0}, {1, 1, 0}, {1, 2, 0}, {1, 2, 1}};
  for (std::size_t i = 0; i + 1 < std::size(course); ++i) EXPECT_LT(course[i], course[i + 1]);
}

TEST(LinkPositions, StartsAtTheEarliestLinkAndLeavesOutThoseThatHaveAPush) {
  LinkPositions links;
  links.add({2, 1, 7}, true);
  links.add({2, 1, 6}, true);
  EXPECT_EQ(links.start(), (TrainerPosition{2, 1, 6}));
  EXPECT_TRUE(links.is_behind(links.start()));
  EXPECT_FALSE(links.lacks(0, {2, 1, 7}));
  EXPECT_TRUE(links.lacks(1, {2, 1, 7}));
  links.on_push({2, 1, 7});
  EXPECT_FALSE(links.lacks(1, {2, 1, 7}));
  EXPECT_FALSE(links.is_behind({2, 1, 7}));
  EXPECT_TRUE(links.lacks(0, {2, 1, 8}));
}

TEST(LinkPositions, ALinkWhereThePassHasEndedLacksNothingOfIt) {
  LinkPositions links;
  links.add({3, 0, 0}, true);
  links.add({2, 1, 40}, true);
  EXPECT_FALSE(links.lacks(0, {2, 1, 41}));
  EXPECT_TRUE(links.lacks(0, {3, 0, 1}));
}

TEST(LinkPositions, OnlyLinksInRoundsAreSplit) {
  LinkPositions links;
  EXPECT_FALSE(links.is_split());
  links.add({0, 0, 5}, true);
  links.add({0, 0, 3}, false);
  links.add({0, 0, 9}, false);
  EXPECT_FALSE(links.is_split());
  links.add({0, 0, 6}, true);
  EXPECT_TRUE(links.is_split());
  links.on_push({0, 0, 6});
  EXPECT_FALSE(links.is_split());
}

TEST(LinkPositions, AnEndOfAPassThatReachedSomePortsOnlyIsNoSplit) {
  LinkPositions links;
  links.add({3, 0, 0}, true);
  links.add({2, 1, 40}, true);
  links.add({2, 1, 40}, true);
  EXPECT_FALSE(links.is_split()) << "no port lacks a push";
  links.add({2, 1, 39}, true);
  EXPECT_TRUE(links.is_split());
}

TEST(LinkPositions, APositionIsOfTheTrainerThatAsks) {
  wire::Position position;
  position.set_passes_finished(4);
  position.set_pauses(1);
  position.add_pass_batches(8);
  position.add_pass_batches(9);
  EXPECT_EQ(position_of(position, 1), (TrainerPosition{4, 1, 9}));
  EXPECT_EQ(position_of(position, 2), (TrainerPosition{4, 1, 0}));
}

// The machine, driven by the answers of shards.

using State = Recovery::State;

// Two dense shards and one sparse shard.
Recovery trainer(std::uint32_t id, std::uint64_t passes = 4) {
  wire::ParameterSet set;
  set.set_dense_shards(2);
  set.set_sparse_shards(1);
  return {set, id, passes};
}

wire::Position position(const Shard& shard, TrainerPosition at = {}) {
  wire::Position position;
  position.set_ready(shard.runs);
  position.set_has_rounds(shard.in_rounds);
  for (const std::uint64_t savepoint : shard.savepoints) position.add_savepoints(savepoint);
  position.set_passes_finished(at.passes);
  position.set_pauses(at.pauses);
  for (int id = 0; id < 2; ++id) position.add_pass_batches(at.batches);
  return position;
}

// The state after all shards have answered Join.
State join(Recovery& recovery, const std::vector<Shard>& shards) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    EXPECT_EQ(recovery.request(i)->type, FrameType::kJoin);
    recovery.on_position(i, position(shards[i]));
  }
  (void)recovery.end_state({});
  return recovery.state();
}

// The state after all shards have answered Ready.
State ready(Recovery& recovery, const std::vector<TrainerPosition>& at) {
  recovery.begin_ready();
  for (std::size_t i = 0; i < at.size(); ++i) {
    EXPECT_EQ(recovery.request(i)->type, FrameType::kReady);
    recovery.on_position(i, position({kRuns}, at[i]));
  }
  EXPECT_TRUE(recovery.end_state({}));
  return recovery.state();
}

const std::vector<Shard> kAllRun{{kRuns}, {kRuns}, {kRuns}};
const std::vector<Shard> kAllEmpty{{kLost}, {kLost}, {kLost}};
const std::vector<Shard> kOneLost{
    {kRuns, kRounds, {1, 5}}, {kLost, kRounds, {1}}, {kRuns, kAsync, {1}}};
const std::vector<Shard> kOneLostForGood{{kRuns, kRounds, {1}}, {kLost}, {kRuns, kRounds, {1}}};

TEST(Recovery, JoinNamesEachShardByItsKindAndNumber) {
  const Recovery recovery = trainer(1);
  const auto join = [&](std::size_t shard) {
    return std::get<wire::Join>(recovery.request(shard)->message);
  };
  EXPECT_EQ(join(1).shard(), 1U);
  EXPECT_FALSE(join(1).is_sparse());
  EXPECT_EQ(join(2).shard(), 0U);
  EXPECT_TRUE(join(2).is_sparse());
  EXPECT_FALSE(recovery.request(0)->tail.empty()) << "the parameter set";
}

TEST(Recovery, AJobThatRunsGoesOnWithEveryTrainer) {
  for (const std::uint32_t id : {0U, 1U}) {
    Recovery recovery = trainer(id);
    EXPECT_EQ(join(recovery, kAllRun), State::kReady);
    EXPECT_TRUE(recovery.is_running());
    EXPECT_FALSE(recovery.patience_max());
    EXPECT_EQ(ready(recovery, {{1, 0, 4}, {1, 0, 4}, {1, 0, 4}}), State::kTrain);
  }
}

TEST(Recovery, Trainer0MakesTheShardsOfThePlanGoBack) {
  Recovery recovery = trainer(0);
  EXPECT_EQ(join(recovery, kOneLost), State::kGoBack);
  EXPECT_TRUE(recovery.is_running());
  EXPECT_TRUE(recovery.goes_back());
  EXPECT_TRUE(recovery.silence_max()) << "reading a savepoint takes long";
  EXPECT_EQ(std::get<wire::GoBack>(recovery.request(0)->message).savepoint(), 1U);
  EXPECT_EQ(std::get<wire::GoBack>(recovery.request(1)->message).savepoint(), 1U);
  EXPECT_FALSE(recovery.request(2));
  EXPECT_TRUE(recovery.is_asked(1));
  EXPECT_FALSE(recovery.is_asked(2));
  EXPECT_TRUE(recovery.end_state({}));
  EXPECT_EQ(recovery.state(), State::kReady);
  EXPECT_FALSE(recovery.silence_max());
}

TEST(Recovery, OtherTrainersWaitForTrainer0) {
  for (const auto& shards : {kOneLost, kAllEmpty}) {
    Recovery recovery = trainer(1);
    EXPECT_EQ(join(recovery, shards), State::kReady);
    EXPECT_FALSE(recovery.is_running());
    EXPECT_FALSE(recovery.goes_back());
    EXPECT_FALSE(recovery.patience_max());
  }
}

TEST(Recovery, Trainer0LoadsIfNoShardRuns) {
  Recovery recovery = trainer(0);
  EXPECT_EQ(join(recovery, kAllEmpty), State::kLoad);
  EXPECT_FALSE(recovery.is_running());
  EXPECT_FALSE(recovery.request(0));
  EXPECT_EQ(ready(recovery, {{}, {}, {}}), State::kTrain);
}

TEST(Recovery, WithoutASavepointTrainer0GivesTheJobUp) {
  Recovery recovery = trainer(0);
  for (std::size_t i = 0; i < kOneLostForGood.size(); ++i) {
    recovery.on_position(i, position(kOneLostForGood[i]));
  }
  const Status ended = recovery.end_state({});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kUnreachable);
  EXPECT_EQ(recovery.state(), State::kLost);
}

TEST(Recovery, WithoutASavepointOtherTrainersGiveUpOnlyIfTrainer0DoesNotStartTheJob) {
  Recovery early = trainer(1);
  EXPECT_EQ(join(early, kOneLostForGood), State::kReady);
  EXPECT_TRUE(early.patience_max());
  EXPECT_EQ(ready(early, {{}, {}, {}}), State::kTrain) << "it joined while trainer 0 sent Ready";

  Recovery lost = trainer(1);
  join(lost, kOneLostForGood);
  const Status ended = lost.end_state(Error{Errc::kUnreachable, "no progress"});
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().message, "no progress");
  EXPECT_EQ(lost.state(), State::kLost);
}

TEST(Recovery, ASecondLossIsAnErrorOfTheSession) {
  Recovery recovery = trainer(0);
  join(recovery, kOneLost);
  const Status ended = recovery.end_state(Error{Errc::kUnreachable, "closed"});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "closed");
  EXPECT_NE(recovery.state(), State::kLost) << "the next session finds out";
}

TEST(Recovery, AJobWhoseTrainersLeaveIsOver) {
  Recovery recovery = trainer(0);
  for (std::size_t i = 0; i < 3; ++i) recovery.on_position(i, position({i == 2 ? kRuns : kLost}));
  wire::Position left = position({kRuns}, {4, 2, 0});
  left.set_left(true);
  recovery.on_position(2, left);
  EXPECT_TRUE(recovery.end_state({}));
  EXPECT_EQ(recovery.state(), State::kOver);

  Recovery stopped = trainer(0);  // before its last pass: both barriers are passed
  left.set_passes_finished(2);
  for (std::size_t i = 0; i < 3; ++i) stopped.on_position(i, left);
  EXPECT_TRUE(stopped.end_state({}));
  EXPECT_EQ(stopped.state(), State::kOver);
}

TEST(Recovery, APushThatOnlySomeShardsHaveIsRepeated) {
  Recovery recovery = trainer(1);
  join(recovery, kAllRun);
  EXPECT_EQ(ready(recovery, {{1, 0, 5}, {1, 0, 4}, {1, 0, 5}}), State::kRepeat);
  LinkPositions links = recovery.links(false);
  links.add(recovery.links(true));
  EXPECT_EQ(links.start(), (TrainerPosition{1, 0, 4}));
  recovery.on_repeated(links);
  EXPECT_EQ(recovery.state(), State::kRepeat) << "nothing was sent";
  links.on_push({1, 0, 5});
  recovery.on_repeated(links);
  EXPECT_EQ(recovery.state(), State::kTrain);
}

TEST(Recovery, AKeptPushIsRepeatedIfItIsTheNextOneOrShardsDiffer) {
  JobProgress now;
  now.passes = 1;
  now.batches = 4;
  EXPECT_TRUE(repeats_push(now, 1, 5));
  EXPECT_FALSE(repeats_push(now, 1, 4)) << "all shards have it";
  EXPECT_FALSE(repeats_push(now, 0, 5)) << "its pass is over";
  EXPECT_FALSE(repeats_push(now, 1, 7)) << "the shards went back before it";
  now.is_split = true;
  EXPECT_TRUE(repeats_push(now, 1, 7)) << "shards without rounds are further behind";
}

}  // namespace
}  // namespace paddle::client
