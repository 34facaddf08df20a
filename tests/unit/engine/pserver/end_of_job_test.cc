// A pserver that dies when some trainers have left the job.
#include "tests/unit/engine/pserver/savepoints_fixture.h"

namespace paddle::pserver {
namespace {

using EndOfJob = SavepointsFixture;

std::vector<net::Outgoing> leave(OneShard& one, std::uint32_t trainer) {
  return one.send(trainer, FrameType::kLeave, wire::Leave());
}

void lose(OneShard& one, std::uint32_t trainer) {
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 100 + trainer, out);
}

TEST_F(EndOfJob, WhoJoinsHearsThatAnotherHasLeft) {
  OneShard one(savepoint_set(3), options());
  one.start();
  lose(one, 2);
  EXPECT_FALSE(join_again(one).left()) << "one that is lost has not left";
  EXPECT_TRUE(is(leave(one, 1), FrameType::kDone));
  EXPECT_TRUE(join_again(one, 1).left());
}

TEST_F(EndOfJob, APserverThatWasStartedAgainEndsWithTheTrainersThatComeToIt) {
  for (const bool makes_savepoints : {false, true}) {
    auto set = savepoint_set(4);
    if (!makes_savepoints) set.set_snapshot_seconds(0);
    {
      OneShard lost(set, options());
      lost.start();
      settle(lost);
    }
    OneShard one(set, options());
    one.join(1);
    one.join(2);
    EXPECT_TRUE(one.send(1, FrameType::kReady, wire::Ready()).empty());
    const auto out = leave(one, 2);
    ASSERT_EQ(out.size(), 2U);
    EXPECT_EQ(out[0].frame.header.type, static_cast<std::uint8_t>(FrameType::kDone));
    EXPECT_EQ(out[1].to, 101U) << "it waits for trainer 0, which has left";
    EXPECT_EQ(parse<wire::Refused>(out[1]).code(), wire::REFUSAL_TRAINER_LOST);
    lose(one, 1);
    tick(one, std::chrono::seconds(29));
    EXPECT_FALSE(one.shard.finished());
    ++one.incarnation;
    EXPECT_TRUE(is(one.join(1), FrameType::kPosition));
    EXPECT_TRUE(is(leave(one, 1), FrameType::kDone));
    tick(one, std::chrono::seconds(1));
    EXPECT_TRUE(one.shard.finished()) << "the others do not come";
    EXPECT_EQ(one.shard.failure(), "");
  }
}

TEST_F(EndOfJob, TrainerZeroMayBeTheOneThatComes) {
  {
    OneShard lost(savepoint_set(2), options());
    lost.start();
    settle(lost);
  }
  OneShard one(savepoint_set(2), options());
  one.join(0);
  EXPECT_TRUE(is(leave(one, 0), FrameType::kDone));
  tick(one, std::chrono::seconds(30));
  EXPECT_TRUE(one.shard.finished());
  EXPECT_EQ(one.shard.failure(), "");
}

TEST_F(EndOfJob, WhoWaitsForTrainerZeroDoesNotWaitForEver) {
  {
    OneShard lost(savepoint_set(2), options());
    lost.start();
    settle(lost);
  }
  OneShard one(savepoint_set(2), options());
  one.join(1);
  EXPECT_TRUE(one.send(1, FrameType::kReady, wire::Ready()).empty());
  tick(one, std::chrono::seconds(29));
  EXPECT_EQ(one.shard.failure(), "");
  const auto out = tick(one, std::chrono::seconds(1));
  EXPECT_EQ(one.shard.failure(), "trainer 0 lost at step 0");
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(parse<wire::Refused>(out[0]).code(), wire::REFUSAL_TRAINER_LOST);
}

}  // namespace
}  // namespace paddle::pserver
