// A Shard without rounds: which pushes are dropped, wait, or are applied at once.
#include <gtest/gtest.h>

#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

// Replies point into the table until they are written: one call that applies two pushes must give
// each trainer the values after its own push.
TEST(ShardAsync, TwoPushesAppliedInOneCallAnswerWithTheirOwnValues) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  set.set_staleness_max(0);
  OneShard one(set);
  one.start();
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed));
  EXPECT_TRUE(one.push(0, 2, 1).empty());  // a batch ahead
  const auto out = one.push(1, 1, 1);
  ASSERT_TRUE(is(out, FrameType::kPushed, 2));
  EXPECT_EQ(out[0].to, 101U);
  EXPECT_EQ(out[0].frame.tail.size(), out[1].frame.tail.size());
  EXPECT_NE(out[0].frame.tail, out[1].frame.tail);
}

TEST(ShardAsync, Trap12LaggedDenseGradientIsDroppedCountedAndReported) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  OneShard one(set);
  one.start();
  for (std::uint64_t batch = 1; batch <= 3; ++batch) {
    EXPECT_TRUE(is(one.push(0, batch, 1), FrameType::kPushed));
  }
  const auto before = one.values();
  auto out = one.push(1, 1, 1);  // 3 updates behind, the limit is 1.5 x 2
  ASSERT_TRUE(is(out, FrameType::kPushed));
  EXPECT_TRUE(parse<wire::Pushed>(out[0]).discarded());
  EXPECT_EQ(parse<wire::Pushed>(out[0]).last_applied(), 1U);
  EXPECT_EQ(one.values(), before);
  out = one.push(1, 2, 1);  // it has seen the current values by now
  EXPECT_FALSE(parse<wire::Pushed>(out[0]).discarded());
  EXPECT_NE(one.values(), before);
  one.finish(0, 0);
  out = one.finish(1, 0);
  ASSERT_TRUE(is(out, FrameType::kPassFinished, 2));
  const auto finished = parse<wire::PassFinished>(out[0]);
  EXPECT_EQ(finished.discarded(), 1U);
  EXPECT_EQ(finished.pushes(), 5U);  // with lags 0, 0, 0, 3 and 0
  EXPECT_EQ(std::vector<std::uint64_t>(finished.lags().begin(), finished.lags().end()),
            (std::vector<std::uint64_t>{4, 0, 1}));
  one.push(0, 4, 1);
  const ShardStatistics all = one.shard.statistics();  // of the job, where a pass's start anew
  EXPECT_EQ(all.pushes, 6U);
  EXPECT_EQ(all.lags, (std::vector<std::uint64_t>{4, 1, 1}));
  EXPECT_GT(all.bytes, 0U);
}

TEST(ShardAsync, HalfAsyncDiscardsNothing) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_HALF_ASYNC);
  OneShard one(set);
  one.start();
  for (std::uint64_t batch = 1; batch <= 9; ++batch) one.push(0, batch, 1);
  const auto out = one.push(1, 1, 1);
  ASSERT_TRUE(is(out, FrameType::kPushed));
  EXPECT_FALSE(parse<wire::Pushed>(out[0]).discarded());
}

TEST(ShardAsync, StalenessMaxHoldsTheAnswerUntilTheSlowestHasCaughtUp) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  set.set_staleness_max(1);
  OneShard one(set);
  one.start();
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed));
  EXPECT_TRUE(is(one.push(0, 2, 1), FrameType::kPushed));
  const auto before = one.values();
  EXPECT_TRUE(one.push(0, 3, 1).empty());
  EXPECT_EQ(one.values(), before);
  std::vector<net::Outgoing> out;
  one.shard.on_tick(one.now + kNoticePeriod, out);
  ASSERT_TRUE(is(out, FrameType::kWaiting));
  EXPECT_EQ(parse<wire::Waiting>(out[0]).reason(), "trainer 1, still at batch 0 of the pass");
  out = one.push(1, 1, 1);
  ASSERT_TRUE(is(out, FrameType::kPushed, 2));  // its own, and the one that waited
  EXPECT_EQ(out[0].to, 101U);
  EXPECT_EQ(out[1].to, 100U);
  EXPECT_FALSE(parse<wire::Pushed>(out[1]).discarded());
  EXPECT_TRUE(one.push(0, 4, 1).empty());
  out = one.finish(1, 0);  // a trainer without more data holds nobody back
  EXPECT_TRUE(is(out, FrameType::kPushed));
}

TEST(ShardAsync, LostTrainerDoesNotHoldThePass) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  OneShard one(set);
  one.start();
  EXPECT_TRUE(one.finish(0, 0).empty());
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 101, out);
  EXPECT_TRUE(is(out, FrameType::kPassFinished));
}

// Two trainers with small pushes use up the memory reserved for a large push that waits for the
// slowest.
TEST(ShardAsync, APushThatWaitsFindsTheMemoryThatOthersUsedMeanwhile) {
  constexpr std::uint32_t kWidth = 32;
  auto set = test::small_set("sgd", 3);
  set.mutable_parameters(2)->set_dims(1, kWidth);
  set.set_sparse_strategy(wire::STRATEGY_ASYNC);
  set.set_staleness_max(10);
  OneShard one(set, true);
  one.start();
  std::uint64_t next_id = 0;
  const auto push = [&](std::uint32_t trainer, std::uint64_t sequence, std::uint64_t rows) {
    wire::PushRows message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(1);
    message.add_segments()->set_parameter(2);
    message.mutable_segments(0)->set_count(rows);
    Bytes tail;
    for (std::uint64_t i = 0; i < rows; ++i, ++next_id) {
      append_bytes(tail, std::span<const std::uint64_t>(&next_id, 1));
    }
    const std::vector<float> values(rows * kWidth, 0.0F);
    append_bytes(tail, std::span<const float>(values));
    return one.send(trainer, FrameType::kPushRows, message, std::move(tail), sequence);
  };
  for (std::uint64_t sequence = 1; sequence <= 11; ++sequence) push(0, sequence, 1);
  EXPECT_TRUE(push(0, 12, 5440).empty());
  for (std::uint64_t sequence = 1; sequence <= 11; ++sequence) push(1, sequence, 1020);
  // 16384 rows fill the table's first reservation of 2 MiB.
  EXPECT_LT(one.shard.sparse(2)->rows(), 16384 - 3 * 1020);
  EXPECT_TRUE(is(push(2, 1, 1), FrameType::kPushed, 2));
  EXPECT_EQ(one.shard.sparse(2)->rows(), next_id);
}

}  // namespace
}  // namespace paddle::pserver
