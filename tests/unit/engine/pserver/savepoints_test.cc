// When a shard makes its savepoints.
#include <algorithm>
#include <numeric>

#include "tests/unit/engine/pserver/savepoints_fixture.h"

namespace paddle::pserver {
namespace {

using Savepoints = SavepointsFixture;
using Names = std::vector<std::string>;

bool announces(const std::vector<net::Outgoing>& pushed) {
  EXPECT_TRUE(is(pushed, FrameType::kPushed, 2));
  bool any = false;
  for (const net::Outgoing& one : pushed) any = any || parse<wire::Pushed>(one).savepoint();
  return any;
}

TEST_F(Savepoints, TheFirstIsOfTheInitialValues) {
  OneShard one(savepoint_set(2), options());
  one.join(0);
  one.join(1);
  EXPECT_EQ(names(), Names());
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_EQ(names(), Names{full(1)});
  tick(one);
  EXPECT_EQ(savepoints_of(join_again(one)), std::vector<std::uint64_t>{1});
}

TEST_F(Savepoints, NoneAreMadeOfAJobThatDoesNotWantThemOrCannotGoBack) {
  auto never = savepoint_set(2);
  never.set_snapshot_seconds(0);
  auto lone = savepoint_set(2);
  lone.set_trainers_return(false);
  for (const auto& set : {never, lone}) {
    OneShard one(set, options());
    one.start();
    one.asks_savepoint = true;
    round(one, 1, 1);
    EXPECT_EQ(names(), Names());
  }
}

TEST_F(Savepoints, TheFirstShardAnnouncesOneWhenThePeriodIsOverAndTheLastIsWholeEverywhere) {
  OneShard one(savepoint_set(2), options());
  one.start();
  tick(one);
  tick(one, kPeriod);
  EXPECT_FALSE(announces(round(one, 1, 1))) << "who knows whether the others have the first";
  one.whole_savepoint = 1;
  round(one, 2, 1);
  tick(one);
  EXPECT_TRUE(announces(round(one, 3, 1)));
  EXPECT_FALSE(announces(round(one, 4, 1))) << "once";
  tick(one, kPeriod - std::chrono::seconds(1));
  EXPECT_FALSE(announces(round(one, 5, 1)));
  tick(one, std::chrono::seconds(1));
  EXPECT_TRUE(announces(round(one, 6, 1))) << "nobody asked for the one before";
}

TEST_F(Savepoints, AfterTheWayBackTheNextComesSooner) {
  OneShard one(savepoint_set(2), options());
  one.start();
  savepoint_round(one, 1, 1);
  one.whole_savepoint = 2;
  round(one, 2, 1);
  tick(one, kPeriod);
  join_again(one);
  go_back(one, 2);
  for (const std::uint32_t id : {0, 1}) one.send(id, FrameType::kReady, wire::Ready());
  EXPECT_FALSE(announces(round(one, 2, 1))) << "that was due to the trainers' last lives";
  tick(one);
  tick(one, std::chrono::milliseconds(2500));
  EXPECT_TRUE(announces(round(one, 3, 1))) << "who fails every few seconds gets on, too";
  savepoint_round(one, 4, 1);
  one.whole_savepoint = 5;
  round(one, 5, 1);
  tick(one, kPeriod / 2);
  EXPECT_FALSE(announces(round(one, 6, 1))) << "only the first";
  tick(one, kPeriod / 2);
  EXPECT_TRUE(announces(round(one, 7, 1)));
}

TEST_F(Savepoints, AShardThatHasNoneForLongDoesNotKeepTheOthersFromTheNext) {
  OneShard one(savepoint_set(2), options());
  one.start();
  tick(one);
  tick(one, 5 * kPeriod);
  EXPECT_FALSE(announces(round(one, 1, 1)));
  tick(one, kPeriod);
  EXPECT_TRUE(announces(round(one, 2, 1)));
}

TEST_F(Savepoints, OtherShardsOfAJobInRoundsAnnounceNone) {
  const auto announces_ever = [&](const wire::ParameterSet& set, ShardOptions options) {
    OneShard one(set, options);
    one.start();
    one.whole_savepoint = 1;
    round(one, 1, 1);
    tick(one, kPeriod);
    tick(one, kPeriod);
    return announces(round(one, 2, 1));
  };
  auto set = savepoint_set(2);
  set.set_dense_shards(2);
  EXPECT_TRUE(announces_ever(set, options(false, 0)));
  EXPECT_FALSE(announces_ever(set, options(false, 1)));
  EXPECT_FALSE(announces_ever(savepoint_set(2), options(true))) << "the dense one does";
  set = savepoint_set(2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  EXPECT_TRUE(announces_ever(set, options(true))) << "it is the first in rounds";
}

TEST_F(Savepoints, OneIsMadeAfterTheRoundWhosePushAsks) {
  OneShard one(savepoint_set(2), options());
  one.start();
  settle(one);
  one.asks_savepoint = true;
  one.push(0, 1, 1);
  EXPECT_EQ(names(), Names{full(1)}) << "the round is not over";
  one.asks_savepoint = false;
  one.push(1, 1, 1);
  tick(one);
  round(one, 2, 1);
  const auto pushed = round(one, 3, 1);
  EXPECT_EQ(names(), (Names{full(1), full(2)}));
  EXPECT_EQ(parse<wire::Pushed>(pushed[0]).whole_savepoint(), 2U);
}

TEST_F(Savepoints, NoneBeginsWhileOneIsUnderWay) {
  OneShard one(savepoint_set(2), options(true));
  one.start();
  settle(one);
  round(one, 1, 1);
  one.asks_savepoint = true;
  round(one, 2, 1);
  round(one, 3, 1);
  one.asks_savepoint = false;
  settle(one);
  EXPECT_EQ(names(), (Names{full(1), delta(3)})) << "that of round 3 would have been 4";
  savepoint_round(one, 4, 1);
  EXPECT_EQ(savepoints_of(join_again(one)), (std::vector<std::uint64_t>{1, 3, 5}));
}

TEST_F(Savepoints, ThoseThatNoShardGoesBackToAreRemoved) {
  OneShard one(savepoint_set(2), options(true));
  one.start();
  settle(one);
  savepoint_round(one, 1, 1);
  savepoint_round(one, 2, 1);
  const auto all = names();
  EXPECT_EQ(all.size(), 3U);
  one.whole_savepoint = 1;
  round(one, 3, 1);
  tick(one);
  EXPECT_EQ(names(), all) << "all of them build on the first, or it is the newest everywhere";
  one.whole_savepoint = 3;
  round(one, 4, 1);
  tick(one);
  EXPECT_LT(names().size(), all.size());
}

TEST_F(Savepoints, AShardThatMakesNoneDoesNotFillTheDisksOfTheOthers) {
  for (const bool is_sparse : {false, true}) {
    files = test::MemoryFiles();
    OneShard one(savepoint_set(2), options(is_sparse));
    one.start();
    savepoint_round(one, 1, 1);
    one.whole_savepoint = 2;
    for (std::uint64_t sequence = 2; sequence < 40; ++sequence) savepoint_round(one, sequence, 1);
    EXPECT_LE(names().size(), 10U);
    const auto savepoints = savepoints_of(join_again(one));
    EXPECT_TRUE(std::ranges::count(savepoints, 2U)) << "all have it";
    EXPECT_GT(savepoints.back(), 32U) << "the next one may be had by all again";
    ASSERT_TRUE(is(go_back(one, 2), FrameType::kPosition));
  }
}

TEST_F(Savepoints, AnAsynchronousShardMakesOneWhenThePeriodIsOver) {
  OneShard one(async_set(1), options());
  one.start();
  tick(one);
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed));
  tick(one, kPeriod - std::chrono::seconds(1));
  EXPECT_EQ(names(), Names{full(1)});
  tick(one, std::chrono::seconds(1));
  tick(one);
  EXPECT_EQ(names(), Names{full(2)}) << "the one before is of no use now";
  tick(one, kPeriod);
  EXPECT_EQ(names(), Names{full(2)}) << "nothing has changed since";
}

TEST_F(Savepoints, AnAsynchronousPassEndsOnlyWhenASavepointOfItIsWhole) {
  OneShard one(async_set(1), options(true));
  one.join(0);
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(one.finish(0, 0).empty()) << "its savepoint is under way";
  std::vector<net::Outgoing> out;
  for (int i = 0; i < 8 && out.empty(); ++i) out = tick(one);
  ASSERT_TRUE(is(out, FrameType::kPassFinished));
  settle(one);
  EXPECT_EQ(names().size(), 2U) << "the next pass has one too";
}

// Trainers that wait for one send no frames between which it would be copied.
TEST_F(Savepoints, WhileNobodyAsksForAnythingOneIsCopiedFaster) {
  OneShard one(async_set(1), options(true));
  one.start();
  settle(one);
  constexpr std::uint64_t kRows = 400'000;
  wire::PushRows message;
  message.mutable_part()->set_parts(1);
  message.mutable_part()->set_samples(1);
  message.add_segments()->set_parameter(2);
  message.mutable_segments(0)->set_count(kRows);
  std::vector<std::uint64_t> ids(kRows);
  std::iota(ids.begin(), ids.end(), 0);
  Bytes tail;
  append_bytes(tail, std::span<const std::uint64_t>(ids));
  append_bytes(tail, std::span<const float>(std::vector<float>(3 * kRows, 1)));
  EXPECT_TRUE(
      is(one.send(0, FrameType::kPushRows, message, std::move(tail), 1), FrameType::kPushed));
  EXPECT_TRUE(is(one.finish(0, 0), FrameType::kPassFinished));
  auto out = one.finish(0, 1);
  EXPECT_TRUE(out.empty()) << "the savepoint of 9 MB is under way";
  int ticks = 0;
  for (; ticks < 100 && out.empty(); ++ticks) out = tick(one);
  EXPECT_TRUE(is(out, FrameType::kPassFinished));
  EXPECT_LE(ticks, 3);
}

TEST_F(Savepoints, APassEndsWithoutOneWhenTheDiskFails) {
  OneShard one(async_set(1), options(true));
  one.join(0);
  files.fail(1, ENOSPC, true);
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(is(one.finish(0, 0), FrameType::kPassFinished));
  files.stop_failing();
  settle(one);
  tick(one, kPeriod);
  settle(one);
  EXPECT_EQ(names(), Names{full(2)}) << "the disk is tried again";
}

// Its disk hangs.
class StuckStore final : public snapshot::SavepointStore {
 public:
  void begin(std::uint64_t, bool) override {}
  void add(std::uint32_t, Bytes) override {}
  void end() override {}
  std::uint64_t backlog() const override { return 1; }
  bool has_failed() const override { return false; }
  std::vector<std::uint64_t> whole() const override { return {}; }
  Status read(std::uint64_t, const Use&) override { return {}; }
  void forget_before(std::uint64_t) override {}
  Status forget_after(std::uint64_t) override { return {}; }
};

TEST_F(Savepoints, ATrainerThatWaitsForOneIsToldSo) {
  ShardOptions stuck = options(true);
  stuck.open_savepoints = [](std::uint64_t) -> Result<std::unique_ptr<snapshot::SavepointStore>> {
    return std::unique_ptr<snapshot::SavepointStore>(std::make_unique<StuckStore>());
  };
  OneShard one(async_set(1), stuck);
  one.start();
  EXPECT_TRUE(one.finish(0, 0).empty());
  settle(one);
  const auto out = tick(one, kNoticePeriod);
  ASSERT_TRUE(is(out, FrameType::kWaiting));
  EXPECT_EQ(parse<wire::Waiting>(out[0]).reason(), "its savepoint to be written to disk");
}

// Its folder has those of an earlier run.
TEST_F(Savepoints, TheFirstStartOfAPserverHasNone) {
  for (const std::uint64_t incarnation : {1, 2}) {
    {
      OneShard earlier(savepoint_set(2), options());
      earlier.start();
      savepoint_round(earlier, 1, 1);
    }
    OneShard one(savepoint_set(2), options(false, 0, incarnation));
    const auto position = parse<wire::Position>(one.join(0)[0]);
    EXPECT_EQ(position.savepoints_size(), incarnation == 1 ? 0 : 2);
    EXPECT_EQ(names().size(), incarnation == 1 ? 0U : 2U);
  }
}

TEST_F(Savepoints, AJobThatBeginsAnewForgetsThoseOfTheOneBefore) {
  {
    OneShard earlier(savepoint_set(2), options());
    earlier.start();
    savepoint_round(earlier, 1, 1);
  }
  OneShard one(savepoint_set(2), options());
  one.start();
  EXPECT_EQ(names(), Names{full(1)});
  tick(one);
  EXPECT_EQ(savepoints_of(join_again(one)), std::vector<std::uint64_t>{1});
}

TEST_F(Savepoints, ThoseThatCannotBeForgottenAreNotOfferedEither) {
  {
    OneShard earlier(savepoint_set(2), options());
    earlier.start();
    savepoint_round(earlier, 1, 1);
  }
  OneShard one(savepoint_set(2), options());
  one.join(0);
  one.join(1);
  files.fail(0, EIO, true);
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_EQ(savepoints_of(join_again(one)), std::vector<std::uint64_t>());
  expect_refused(go_back(one, 2), wire::REFUSAL_PROTOCOL, "no savepoint 2");
}

}  // namespace
}  // namespace paddle::pserver
