// A pserver that was started again, and the savepoints that its earlier incarnation has left.
#include "tests/unit/engine/pserver/savepoints_fixture.h"

namespace paddle::pserver {
namespace {

using RestartedShard = SavepointsFixture;
using Names = std::vector<std::string>;

TEST_F(RestartedShard, ANewProcessListsTheSavepointsAndGoesBack) {
  std::vector<float> expected;
  {
    OneShard lost(savepoint_set(2, "momentum"), options());
    lost.start();
    savepoint_round(lost, 1, 1);
    expected = lost.values();
    round(lost, 2, 1);
  }
  OneShard one(savepoint_set(2, "momentum"), options());
  one.join(1);
  const auto position = parse<wire::Position>(one.join(0)[0]);
  EXPECT_FALSE(position.ready());
  EXPECT_EQ(savepoints_of(position), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(one.send(1, FrameType::kReady, wire::Ready()).empty());
  EXPECT_EQ(go_back(one, 2).size(), 2U) << "who waits for Ready is told to join again";
  EXPECT_EQ(one.values(), expected);
  EXPECT_EQ(one.shard.step(), 1U);
}

TEST_F(RestartedShard, ADamagedSavepointFailsWithItsNameAndTheOneBeforeCanBeUsed) {
  {
    OneShard lost(savepoint_set(2), options());
    lost.start();
    savepoint_round(lost, 1, 1);
    savepoint_round(lost, 2, 1);
  }
  {
    OneShard one(savepoint_set(2), options());
    one.join(1);
    one.join(0);
    damage(full(3));
    expect_refused(go_back(one, 3), wire::REFUSAL_TRAINER_LOST, full(3));
    EXPECT_NE(one.shard.failure().find(full(3)), std::string::npos) << one.shard.failure();
    EXPECT_FALSE(one.shard.is_given_up()) << "its next incarnation goes on";
    settle(one);
  }
  OneShard next(savepoint_set(2), options());
  next.join(1);
  EXPECT_EQ(savepoints_of(parse<wire::Position>(next.join(0)[0])),
            (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(is(go_back(next, 2), FrameType::kPosition));
}

TEST_F(RestartedShard, ADamagedSavepointFailsWhileAnotherIsUnderWayToo) {
  OneShard one(savepoint_set(2), options(true));
  one.start();
  settle(one);
  savepoint_round(one, 1, 1);
  one.asks_savepoint = true;
  round(one, 2, 1);
  damage(delta(2));
  expect_refused(go_back(one, 2), wire::REFUSAL_TRAINER_LOST, delta(2));
  settle(one);
  EXPECT_NE(one.shard.failure(), "");
}

TEST_F(RestartedShard, AShardThatIsNotReadyKeepsThePlaceOfALostTrainerIfItHasSavepoints) {
  const auto lose = [](OneShard& one) {
    std::vector<net::Outgoing> out;
    one.shard.on_disconnect(one.now, 101, out);
  };
  {
    OneShard lost(savepoint_set(2), options());
    lost.join(0);
    lost.join(1);
    lose(lost);
    EXPECT_EQ(lost.shard.failure(), "trainer 1 lost at step 0") << "there is nothing to go on from";
  }
  {
    OneShard lost(savepoint_set(2), options());
    lost.start();
    settle(lost);
  }
  OneShard one(savepoint_set(2), options());
  one.join(0);
  one.join(1);
  lose(one);
  EXPECT_EQ(one.shard.failure(), "");
  tick(one, std::chrono::seconds(30));
  EXPECT_EQ(one.shard.failure(), "trainer 1 lost at step 0");
}

// One that has left the job at the savepoint's future, or was never here.
TEST_F(RestartedShard, ATrainerThatDoesNotJoinAgainIsLostInTime) {
  {
    OneShard lost(savepoint_set(2), options());
    lost.start();
    settle(lost);
  }
  OneShard one(savepoint_set(2), options());
  one.join(0);
  ASSERT_TRUE(is(go_back(one, 1), FrameType::kPosition));
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(one.push(0, 1, 1).empty());
  tick(one, std::chrono::seconds(29));
  EXPECT_EQ(one.shard.failure(), "");
  tick(one, std::chrono::seconds(1));
  EXPECT_EQ(one.shard.failure(), "trainer 1 lost at step 0");
}

TEST_F(RestartedShard, WithoutGraceNobodyIsLostWhoHasNotComeYet) {
  {
    OneShard lost(savepoint_set(2), options());
    lost.start();
    settle(lost);
  }
  ShardOptions by_hand = options();
  by_hand.lost_trainer_grace = Duration::zero();
  OneShard one(savepoint_set(2), by_hand);
  one.join(0);
  ASSERT_TRUE(is(go_back(one, 1), FrameType::kPosition));
  tick(one);
  EXPECT_EQ(one.shard.failure(), "");
}

TEST_F(RestartedShard, ATrainerThatHadLeftAtTheSavepointAndIsBackTakesPart) {
  {
    OneShard lost(async_set(2), options());
    lost.start();
    std::vector<net::Outgoing> out;
    lost.shard.on_disconnect(lost.now, 101, out);
    tick(lost, std::chrono::seconds(30));
    lost.push(0, 1, 1);
    tick(lost, kPeriod);
    settle(lost);
  }
  OneShard one(async_set(2), options());
  ++one.incarnation;
  one.join(1);
  const auto position = parse<wire::Position>(one.join(0)[0]);
  ASSERT_TRUE(
      is(go_back(one, position.savepoints(position.savepoints_size() - 1)), FrameType::kPosition));
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(is(one.push(1, 1, 1), FrameType::kPushed));
  EXPECT_TRUE(one.finish(0, 0).empty()) << "it waits for trainer 1";
}

// Another port's savepoint could not be read, and now there is none that all have.
TEST_F(RestartedShard, ARestartOfTrainerZeroMayLoadASnapshotInstead) {
  const std::uint64_t id = 4;
  for (const bool is_sparse : {false, true}) {
    files = test::MemoryFiles();
    OneShard fresh(savepoint_set(2), options(is_sparse));
    fresh.join(0);
    {
      OneShard lost(savepoint_set(2), options(is_sparse));
      lost.start();
      round(lost, 1, 1);
      for (const std::uint32_t trainer : {0U, 1U}) lost.finish(trainer, 0, Tally{{3, 4}, {0.5}});
      pause(lost, 0, 1, 0);
      pause(lost, 1, 1, 0);
      savepoint_round(lost, 2, 1);
    }
    OneShard one(savepoint_set(2), options(is_sparse));
    one.join(1);
    const auto savepoints = savepoints_of(parse<wire::Position>(one.join(0)[0]));
    ASSERT_TRUE(is(go_back(one, savepoints.back()), FrameType::kPosition));
    ++one.incarnation;
    const auto joined = one.join(0);
    one.join(1);
    ASSERT_TRUE(is(joined, FrameType::kPosition));
    const auto position = parse<wire::Position>(joined[0]);
    EXPECT_EQ(savepoints_of(position), savepoints) << "or goes back after all";
    EXPECT_EQ(position.step() + position.passes_finished() + position.pauses(), 0U);
    if (is_sparse) {
      ASSERT_TRUE(is(one.send(0, FrameType::kLoadBegin, wire::LoadBegin()), FrameType::kPosition));
      wire::PutRows put;
      put.set_parameter(test::kTable);
      put.set_count(1);
      Bytes tail;
      append_bytes(tail, std::span(&id, 1));
      const std::vector<float> zeros(2 + 3);  // marks, and values
      append_bytes(tail, std::span(zeros));
      EXPECT_TRUE(is(one.send(0, FrameType::kPutRows, put, std::move(tail)), FrameType::kDone));
    }
    ASSERT_TRUE(is(one.send(0, FrameType::kReady, wire::Ready()), FrameType::kPosition));
    if (is_sparse) {
      std::vector<float> values(3, 1);
      one.shard.sparse(test::kTable)->read({&id, 1}, values);
      EXPECT_EQ(values, std::vector<float>(3, 0));
      EXPECT_EQ(one.shard.sparse(test::kTable)->rows(), 1U);
    } else {
      EXPECT_EQ(one.values(), fresh.values());
    }
    EXPECT_EQ(one.shard.step(), 0U);
    settle(one);
    EXPECT_EQ(names(), Names{full(1)}) << "those of before are of another job";
    EXPECT_TRUE(is(round(one, 1, 1), FrameType::kPushed, 2));
    EXPECT_TRUE(one.finish(0, 0).empty());
    EXPECT_TRUE(is(one.finish(1, 0), FrameType::kPassFinished, 2));
  }
}

}  // namespace
}  // namespace paddle::pserver
