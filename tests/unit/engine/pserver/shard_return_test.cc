// A trainer is lost, and its next incarnation joins and goes on while the others wait.
#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

constexpr auto kGrace = std::chrono::seconds(30);

class ShardReturn : public testing::Test {
 protected:
  void lose(OneShard& one, std::uint32_t trainer) {
    std::vector<net::Outgoing> out;
    one.shard.on_disconnect(one.now, one.peer_base + trainer, out);
  }
  // Trainer 1 comes back. The next calls are of its new incarnation, and of trainer 0's old one.
  wire::Position come_back(OneShard& one) {
    one.incarnation = 1;
    const auto out = one.join(1);
    EXPECT_TRUE(is(out, FrameType::kPosition));
    return out.empty() ? wire::Position() : parse<wire::Position>(out[0]);
  }
  std::vector<net::Outgoing> pause(OneShard& one, std::uint32_t trainer, std::uint64_t pass,
                                   std::uint64_t pauses) {
    wire::FinishPass message;
    message.set_pass(pass);
    message.set_pause(true);
    message.set_pauses(pauses);
    one.incarnation = trainer == 1 ? incarnation_ : 0;
    return one.send(trainer, FrameType::kFinishPass, message);
  }
  // A push of each, in which it asks for a stop.
  void push_with_stop(OneShard& one, const std::vector<std::uint32_t>& trainers = {0, 1}) {
    wire::PushDense message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_stop(true);
    message.set_count(one.shard.dense()->size());
    const std::vector<float> zeros(one.shard.dense()->size());
    for (const std::uint32_t trainer : trainers) {
      Bytes tail;
      append_bytes(tail, std::span<const float>(zeros));
      one.send(trainer, FrameType::kPushDense, message, std::move(tail), 1);
    }
  }
  // From trainer 1's first incarnation.
  std::vector<net::Outgoing> abandon(OneShard& one, bool is_unreachable = false,
                                     Errc code = Errc::kData) {
    wire::Abandon message;
    message.set_reason("data/train.txt:7: no number");
    message.set_hint("mend it");
    message.set_is_unreachable(is_unreachable);
    message.set_exit_code(static_cast<std::uint32_t>(code));
    Frame frame;
    frame.header = {.type = static_cast<std::uint8_t>(FrameType::kAbandon),
                    .job_tag = 11,
                    .sender = {Role::kTrainer, 1},
                    .server_generation = 5};
    frame.head = message.SerializeAsString();
    std::vector<net::Outgoing> out;
    one.shard.on_frame(one.now, 101, std::move(frame), out);
    return out;
  }
  void wait(OneShard& one, Duration time) {
    std::vector<net::Outgoing> out;
    one.now += time;
    one.shard.on_tick(one.now, out);
  }

  std::uint32_t incarnation_ = 0;  // of trainer 1
};

TEST_F(ShardReturn, AnUnappliedPushOfTheLostProcessIsDroppedAndTheNewOnesApplied) {
  OneShard one(test::small_set("sgd", 2), false, kGrace);
  one.start();
  const auto before = one.values();
  EXPECT_TRUE(one.push(1, 1, 100).empty());
  lose(one, 1);
  const wire::Position position = come_back(one);
  EXPECT_EQ(position.last_applied(), 0U);
  EXPECT_TRUE(position.has_rounds());
  EXPECT_TRUE(one.push(1, 1, 1).empty());
  one.incarnation = 0;
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed, 2));
  EXPECT_EQ(one.values().back(), before.back() - 0.1F);
}

TEST_F(ShardReturn, APushIsAppliedThoughItsTrainerIsLost) {
  OneShard one(test::small_set("sgd", 2), false, kGrace);
  one.start();
  one.push(1, 1, 1);
  lose(one, 1);
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed)) << "the round goes on";
  const wire::Position position = come_back(one);
  EXPECT_EQ(position.last_applied(), 1U);
  EXPECT_EQ(position.pass_batches(1), 1U);
  EXPECT_TRUE(is(one.push(1, 1, 1), FrameType::kPushed)) << "told again, not applied again";
  EXPECT_EQ(one.shard.step(), 1U);
}

TEST_F(ShardReturn, ATrainerLostAtTheEndOfAPassEndsItAnew) {
  OneShard one(test::small_set("sgd", 2), false, kGrace);
  one.start();
  EXPECT_TRUE(one.finish(1, 0, {{7}, {}}).empty());
  lose(one, 1);
  come_back(one);
  one.incarnation = 0;
  EXPECT_TRUE(one.finish(0, 0, {{1}, {}}).empty()) << "the new incarnation may have more data";
  one.incarnation = 1;
  const auto out = one.finish(1, 0, {{2}, {}});
  ASSERT_TRUE(is(out, FrameType::kPassFinished, 2));
  EXPECT_EQ(decode_tally(out[0].frame.tail, 1, 0)->counts, (std::vector<std::uint64_t>{3}));
}

TEST_F(ShardReturn, APassThatEndedIsToldAgain) {
  OneShard one(test::small_set("sgd", 2), false, kGrace);
  one.start();
  one.finish(1, 0, {{7}, {}});
  lose(one, 1);
  EXPECT_TRUE(is(one.finish(0, 0, {{1}, {}}), FrameType::kPassFinished));
  const wire::Position position = come_back(one);
  EXPECT_EQ(position.passes_finished(), 1U);
  EXPECT_EQ(position.passes_loaded(), 0U) << "it ended while this process ran";
  const auto again = one.finish(1, 0, {{7}, {}});
  ASSERT_TRUE(is(again, FrameType::kPassFinished));
  EXPECT_EQ(decode_tally(again[0].frame.tail, 1, 0)->counts, (std::vector<std::uint64_t>{8}));
}

TEST_F(ShardReturn, APauseThatEndedIsToldAgainAndTheNextOneWaits) {
  OneShard one(test::small_set("sgd", 2), false, kGrace);
  one.start();
  EXPECT_TRUE(pause(one, 1, 0, 0).empty());
  lose(one, 1);
  EXPECT_TRUE(is(pause(one, 0, 0, 0), FrameType::kPassFinished));
  EXPECT_EQ(come_back(one).pauses(), 1U);
  incarnation_ = 1;
  EXPECT_TRUE(is(pause(one, 1, 0, 0), FrameType::kPassFinished));
  EXPECT_TRUE(pause(one, 1, 0, 1).empty()) << "another one waits for trainer 0";
  EXPECT_TRUE(is(pause(one, 0, 0, 1), FrameType::kPassFinished, 2));
  expect_refused(pause(one, 0, 0, 5), wire::REFUSAL_PROTOCOL, "asks for pause 5");
}

TEST_F(ShardReturn, PausesAreCountedAnewInEveryPass) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  EXPECT_TRUE(is(pause(one, 0, 0, 0), FrameType::kPassFinished));
  EXPECT_TRUE(is(one.finish(0, 0), FrameType::kPassFinished));
  EXPECT_TRUE(is(pause(one, 0, 1, 0), FrameType::kPassFinished));
}

TEST_F(ShardReturn, NobodyIsWaitedForWhoseStrategyKeepsWhatIsLost) {
  auto set = test::small_set("sgd", 2);
  set.set_trainers_return(false);
  OneShard one(set, false, kGrace);
  one.start();
  lose(one, 1);
  EXPECT_EQ(one.shard.failure(), "trainer 1 lost at step 0");
}

TEST_F(ShardReturn, NobodyIsWaitedForBeforeTheStartOrWhoKnowsThatTheJobStops) {
  OneShard starting(test::small_set("sgd", 2), false, kGrace);
  starting.join(0);
  starting.join(1);
  lose(starting, 1);
  EXPECT_EQ(starting.shard.failure(), "trainer 1 lost at step 0");

  OneShard stopping(test::small_set("sgd", 2), false, kGrace);
  stopping.start();
  push_with_stop(stopping);
  EXPECT_EQ(stopping.shard.failure(), "");
  lose(stopping, 1);
  EXPECT_EQ(stopping.shard.failure(), "trainer 1 lost at step 1");
}

// After the loss of a pserver trainers join one by one, and the first may ask for a stop at once.
TEST_F(ShardReturn, AStopWaitsAWhileForATrainerThatDoesNotKnowOfIt) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  const ShardOptions options{.lost_trainer_grace = std::chrono::minutes(10),
                             .needs_all_trainers = true};
  OneShard one(set, options);
  one.start();
  lose(one, 1);
  push_with_stop(one, {0});
  wait(one, std::chrono::seconds(1));
  ASSERT_EQ(one.shard.failure(), "");
  come_back(one);
  const auto pushed = one.push(1, 1, 1);
  ASSERT_TRUE(is(pushed, FrameType::kPushed));
  EXPECT_TRUE(parse<wire::Pushed>(pushed[0]).stop());
  incarnation_ = 1;
  EXPECT_TRUE(pause(one, 0, 0, 0).empty());
  EXPECT_TRUE(is(pause(one, 1, 0, 0), FrameType::kPassFinished, 2)) << "all stop and save";

  OneShard alone(set, options);
  alone.start();
  lose(alone, 1);
  alone.incarnation = 0;
  push_with_stop(alone, {0});
  wait(alone, kLastTrainerGrace);
  EXPECT_EQ(alone.shard.failure(), "trainer 1 lost at step 1");
}

TEST_F(ShardReturn, ATrainerLostAfterAllOthersLeftHasLeftTooUnlessItComesBackSoon) {
  OneShard one(test::small_set("sgd", 2), false, std::chrono::minutes(10));
  one.start();
  one.send(0, FrameType::kLeave, wire::Leave());
  lose(one, 1);
  EXPECT_FALSE(one.shard.finished()) << "its next incarnation would find nobody";
  come_back(one);
  wait(one, kLastTrainerGrace);
  EXPECT_FALSE(one.shard.finished());
  lose(one, 1);
  wait(one, kLastTrainerGrace);
  EXPECT_EQ(one.shard.failure(), "");
  EXPECT_TRUE(one.shard.finished());
}

// Whoever leaves has met all others at the end of the last pass.
TEST_F(ShardReturn, ATrainerLostAfterAnotherLeftFailsNobody) {
  OneShard one(test::small_set("sgd", 3), false, std::chrono::seconds(1));
  one.start();
  one.send(0, FrameType::kLeave, wire::Leave());
  lose(one, 1);
  wait(one, std::chrono::seconds(1));
  EXPECT_EQ(one.shard.failure(), "");
  EXPECT_FALSE(one.shard.finished());
  one.send(2, FrameType::kLeave, wire::Leave());
  EXPECT_TRUE(one.shard.finished());
}

TEST_F(ShardReturn, ALostTrainerHoldsItsPlaceInAnAsynchronousPass) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  OneShard one(set, false, kGrace);
  one.start();
  EXPECT_TRUE(is(one.push(1, 1, 1), FrameType::kPushed));
  lose(one, 1);
  wait(one, std::chrono::seconds(1));
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed)) << "training goes on";
  EXPECT_TRUE(one.finish(0, 0).empty()) << "the pass waits for its share";
  EXPECT_FALSE(come_back(one).has_rounds());
  EXPECT_TRUE(is(one.push(1, 2, 1), FrameType::kPushed));
  EXPECT_TRUE(is(one.finish(1, 0), FrameType::kPassFinished, 2));
}

TEST_F(ShardReturn, AnAbandonedJobFailsWithTheReasonWhateverIsOpen) {
  for (const bool is_unreachable : {false, true}) {
    OneShard one(test::small_set("sgd", 2), false, kGrace);
    one.start();
    EXPECT_TRUE(one.push(1, 1, 1).empty());  // its answer is open
    auto out = abandon(one, is_unreachable);
    expect_refused(out, is_unreachable ? wire::REFUSAL_TRAINER_LOST : wire::REFUSAL_ABANDONED,
                   "trainer 1: data/train.txt:7: no number");
    EXPECT_EQ(one.shard.is_given_up(), !is_unreachable);
    EXPECT_EQ(one.shard.exit_code(), is_unreachable ? Errc::kUnreachable : Errc::kData);
    out = one.push(0, 1, 1);
    ASSERT_TRUE(is(out, FrameType::kRefused));
    EXPECT_EQ(parse<wire::Refused>(out[0]).hint(), "mend it");
  }
}

TEST_F(ShardReturn, AllEndWithTheCodeOfTheTrainerThatGaveTheJobUp) {
  for (const auto& [said, heard] :
       {std::pair(Errc::kResource, Errc::kResource), std::pair(Errc::kData, Errc::kData),
        std::pair(Errc::kUsage, Errc::kUsage), std::pair(Errc::kInterrupted, Errc::kFailed),
        std::pair(static_cast<Errc>(77), Errc::kFailed)}) {
    OneShard one(test::small_set("sgd", 2), false, kGrace);
    one.start();
    EXPECT_TRUE(one.push(1, 1, 1).empty());
    abandon(one, false, said);
    EXPECT_EQ(one.shard.exit_code(), heard);
    const auto out = one.push(0, 1, 1);
    ASSERT_TRUE(is(out, FrameType::kRefused));
    EXPECT_EQ(parse<wire::Refused>(out[0]).exit_code(), static_cast<std::uint32_t>(heard));
  }
}

TEST_F(ShardReturn, TheOthersOfAnAsynchronousJobGoOnWithoutOneThatAbandonsIt) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  OneShard one(set);
  one.start();
  abandon(one);
  EXPECT_EQ(one.shard.failure(), "");
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed));
  EXPECT_TRUE(is(one.finish(0, 0), FrameType::kPassFinished));
}

// The others leave while trainer 0 saves.
TEST_F(ShardReturn, ATrainerLostAtAStopIsAFailureThoughAnotherHasLeft) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  push_with_stop(one);
  pause(one, 0, 0, 0);
  pause(one, 1, 0, 0);
  one.send(1, FrameType::kLeave, wire::Leave());
  lose(one, 0);
  EXPECT_EQ(one.shard.failure(), "trainer 0 lost at step 1");
}

TEST_F(ShardReturn, NumbersBeforeTheFirstPassOrPauseAreNoRepeats) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  expect_refused(one.finish(0, UINT64_MAX), wire::REFUSAL_PROTOCOL, "this shard is in pass 0");
  expect_refused(pause(one, 0, 0, UINT64_MAX), wire::REFUSAL_PROTOCOL, "asks for pause");
}

TEST_F(ShardReturn, AStrangerOrALostIncarnationAbandonsNothing) {
  OneShard one(test::small_set("sgd", 2), false, kGrace);
  one.start();
  lose(one, 1);
  come_back(one);
  one.incarnation = 0;
  expect_refused(abandon(one), wire::REFUSAL_STALE_INCARNATION, "incarnation 0");
  EXPECT_EQ(one.shard.failure(), "");
}

}  // namespace
}  // namespace paddle::pserver
