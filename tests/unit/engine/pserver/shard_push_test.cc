// Pushes to a Shard called directly: gradients that are lent, and what is refused of them.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/pserver/shard.h"
#include "engine/table/parameter_set.h"
#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

TEST(ShardPush, GradientsThatAreLentGiveTheSameBits) {
  for (const char* const method : {"sgd", "momentum"}) {
    OneShard expected(test::small_set(method, 1));
    expected.start();
    ASSERT_EQ(expected.shard.dense()->size(), 28U);
    // A part for each of the two blocks, and one for both.
    for (const std::vector<std::size_t>& parts : {std::vector<std::size_t>{24, 4}, {28}}) {
      OneShard lent(test::small_set(method, 1));
      lent.lent_floats = parts;
      lent.start();
      for (std::uint64_t batch = 1; batch <= 3; ++batch, ++lent.step) {
        const float gradient = 0.3F * static_cast<float>(batch);
        if (expected.shard.step() < batch) {
          expected.push(0, batch, gradient);
          ++expected.step;
        }
        lent.push(0, batch, gradient);
      }
      EXPECT_EQ(lent.shard.step(), 3U);
      EXPECT_EQ(lent.values(), expected.values()) << method << parts.size();
    }
  }
}

TEST(ShardPush, GradientsThatAreLentAreChecked) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  const std::vector<float> before = one.values();
  one.lent_floats = {24, 4};
  expect_refused(one.push(0, 1, std::nanf("")), wire::REFUSAL_NOT_FINITE, "'fc.w'");
  EXPECT_EQ(one.values(), before);
  EXPECT_TRUE(is(one.push(0, 1, 1.0F), FrameType::kPushed));
  EXPECT_NE(one.values(), before);
}

// Values stay where they are, so that a trainer may read them there at any time.
TEST(ShardPush, ValuesThatAreLentAreNotInTheAnswer) {
  for (const bool lends_values : {false, true}) {
    OneShard one(test::small_set("sgd", 1));
    one.loan->lends_values = lends_values;
    one.start();
    EXPECT_EQ(one.loan->values.data(), one.shard.dense()->values().data());
    const auto out = one.push(0, 1, 1.0F);
    ASSERT_TRUE(is(out, FrameType::kPushed));
    EXPECT_EQ(parse<wire::Pushed>(out[0]).has_values(), !lends_values);
    EXPECT_EQ(out[0].frame.tail.empty(), lends_values);
  }
}

// Finite gradients that would leave values or the squares of an optimizer infinite.
TEST(ShardPush, GradientsThatWouldMakeValuesInfiniteAreRefusedByName) {
  for (const char* const method : {"sgd", "momentum", "adagrad", "adam", "rmsprop", "ftrl"}) {
    OneShard one(test::small_set(method, 1));
    one.start();
    for (const float gradient : {3e38F, -3e38F, 1e19F}) {
      expect_refused(one.push(0, 1, gradient), wire::REFUSAL_NOT_FINITE, "'fc.w'");
    }
    for (std::uint64_t batch = 1; batch <= 100; ++batch, ++one.step) {
      ASSERT_TRUE(is(one.push(0, batch, 0.9e18F), FrameType::kPushed)) << method;
    }
    for (const float value : one.values()) EXPECT_TRUE(std::isfinite(value)) << method;
  }
  auto fast = test::small_set("sgd", 1);
  fast.mutable_optimizer()->set_learning_rate(1e25F);
  OneShard one(fast);
  one.start();
  expect_refused(one.push(0, 1, 1e13F), wire::REFUSAL_NOT_FINITE, "'fc.w'");
  EXPECT_TRUE(is(one.push(0, 1, 1.0F), FrameType::kPushed));
  OneShard sparse(test::small_set("adagrad", 1), true);
  sparse.start();
  expect_refused(sparse.push_row(0, 1, 7, 3e38F), wire::REFUSAL_NOT_FINITE, "not finite");
}

TEST(ShardPush, MoreSamplesThanThereAreIsAnError) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  expect_refused(one.push(0, 1, 1.0F, ~std::uint64_t{0}), wire::REFUSAL_PROTOCOL, "samples");
}

// The job's samples are in its snapshots, which are read with a limit.
TEST(ShardPush, TotalsFromWhichNoSnapshotCouldBeReadAreRefused) {
  OneShard one(test::small_set("sgd", 1));
  one.join(0);
  wire::LoadBegin begin;
  begin.set_samples(parameter::kCounterMax - 5);
  ASSERT_TRUE(is(one.send(0, FrameType::kLoadBegin, begin), FrameType::kPosition));
  one.send(0, FrameType::kReady, wire::Ready());
  expect_refused(one.push(0, 1, 1.0F, 6), wire::REFUSAL_PROTOCOL, "6 samples in 1 batches");
  EXPECT_TRUE(is(one.push(0, 1, 1.0F, 5), FrameType::kPushed));
  OneShard fresh(test::small_set("sgd", 1));
  fresh.start();
  expect_refused(fresh.push(0, 1, 1.0F, (1ULL << 24U) + 1), wire::REFUSAL_PROTOCOL, "samples");
  EXPECT_TRUE(is(fresh.push(0, 1, 1.0F, 1ULL << 24U), FrameType::kPushed));
}

// Trainers that wait for each other cannot together go over the limit either.
TEST(ShardPush, TotalsOfPushesThatWaitCountToo) {
  OneShard one(test::small_set("sgd", 2));
  one.join(0);
  wire::LoadBegin begin;
  begin.set_samples(parameter::kCounterMax - 5);
  one.send(0, FrameType::kLoadBegin, begin);
  one.join(1);
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(one.push(0, 1, 1.0F, 3).empty());
  expect_refused(one.push(1, 1, 1.0F, 3), wire::REFUSAL_PROTOCOL, "samples");
  EXPECT_TRUE(is(one.push(1, 1, 1.0F, 2), FrameType::kPushed, 2));
}

TEST(ShardPush, TotalsOfManyPushesThatWaitCountToo) {
  constexpr std::uint64_t kSamples = parameter::kBatchSamplesMax * kMergedBatchesMax;
  constexpr auto kAllowed = static_cast<std::uint32_t>(parameter::kCounterMax / kSamples);
  OneShard one(test::small_set("sgd", kAllowed + 2));
  one.start();
  wire::PushDense message;
  message.mutable_part()->set_parts(1);
  message.mutable_part()->set_samples(kSamples);
  message.mutable_part()->set_batches(kMergedBatchesMax);
  message.set_count(one.shard.dense()->size());
  const auto push = [&](std::uint32_t trainer) {
    Bytes tail(one.shard.dense()->size() * sizeof(float), std::byte{0});
    return one.send(trainer, FrameType::kPushDense, message, std::move(tail), 1);
  };
  for (std::uint32_t id = 0; id < kAllowed; ++id) EXPECT_TRUE(push(id).empty());
  for (int i = 0; i < 2; ++i) {
    expect_refused(push(kAllowed), wire::REFUSAL_PROTOCOL, "samples");
    expect_refused(one.push(kAllowed + 1, 1, 1.0F, 1), wire::REFUSAL_PROTOCOL, "samples");
  }
}

TEST(ShardPush, ACostOrTallyThatIsNotFiniteIsRefusedByTrainer) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  for (const double cost : {std::nan(""), static_cast<double>(INFINITY)}) {
    wire::PushDense message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(1);
    message.mutable_part()->set_cost_sum(cost);
    message.set_count(one.shard.dense()->size());
    expect_refused(one.send(0, FrameType::kPushDense, message,
                            Bytes(one.shard.dense()->size() * sizeof(float)), 1),
                   wire::REFUSAL_NOT_FINITE, "trainer 0 pushed a cost");
  }
  Tally tally;
  tally.sums = {1, std::nan("")};
  expect_refused(one.finish(0, 0, tally), wire::REFUSAL_NOT_FINITE, "trainer 0's evaluators");
  tally.sums = {1, 2};
  EXPECT_TRUE(is(one.finish(0, 0, tally), FrameType::kPassFinished));
}

TEST(ShardPush, PushesThatWaitAreBoundedByTheLimitOfThePort) {
  constexpr std::uint64_t kBytesMax = 1U << 20U;
  constexpr std::uint64_t kRows = 20'000;  // 400 kB
  OneShard one(test::small_set("sgd", 4), true, {}, kBytesMax);
  one.start();
  const auto first_part = [&](std::uint32_t trainer) {
    wire::PushRows message;
    message.mutable_part()->set_parts(2);
    message.mutable_part()->set_samples(1);
    message.add_segments()->set_parameter(2);
    message.mutable_segments(0)->set_count(kRows);
    std::vector<std::uint64_t> ids(kRows);
    std::iota(ids.begin(), ids.end(), 0);
    Bytes tail;
    append_bytes(tail, std::span<const std::uint64_t>(ids));
    append_bytes(tail, std::span<const float>(std::vector<float>(3 * kRows)));
    return one.send(trainer, FrameType::kPushRows, message, std::move(tail), 1);
  };
  EXPECT_TRUE(is(first_part(0), FrameType::kStored));
  EXPECT_TRUE(is(first_part(1), FrameType::kStored));
  EXPECT_TRUE(is(first_part(2), FrameType::kStored));
  expect_refused(first_part(3), wire::REFUSAL_LIMIT, "batch 1 of trainer 3");
  // A trainer that leaves takes its parts along.
  std::vector<net::Outgoing> out;
  one.send(0, FrameType::kLeave, wire::Leave());
  EXPECT_TRUE(is(first_part(3), FrameType::kStored));
}

}  // namespace
}  // namespace paddle::pserver
