// Rounds in which one trainer of a node pushes the sum of its trainers' gradients.
#include <gtest/gtest.h>

#include "engine/table/parameter_set.h"
#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

wire::ParameterSet node_set(std::uint32_t trainers) {
  auto set = test::small_set("sgd", trainers);
  set.set_node_groups(true);
  return set;
}

// A push of `samples` of its own, whose gradient is that of `node_samples`; or without a gradient.
std::vector<net::Outgoing> push(OneShard& one, std::uint32_t trainer, std::uint64_t samples,
                                std::uint64_t node_samples, std::optional<float> gradient) {
  wire::PushDense message;
  message.mutable_part()->set_parts(1);
  message.mutable_part()->set_samples(samples);
  message.set_node_samples(node_samples);
  Bytes tail;
  if (gradient) {
    const std::vector<float> values(one.shard.dense()->size(), *gradient);
    message.set_count(values.size());
    append_bytes(tail, std::span<const float>(values));
  }
  return one.send(trainer, FrameType::kPushDense, message, std::move(tail), 1);
}

TEST(ShardNodes, OneTrainerCarriesTheSumAndGetsTheValues) {
  OneShard one(node_set(3));
  one.start();
  const float before = one.values().back();
  EXPECT_TRUE(push(one, 0, 1, 4, 1).empty());
  EXPECT_TRUE(push(one, 1, 3, 0, std::nullopt).empty());
  const auto out = one.push(2, 1, 3, 4);  // alone on its node
  ASSERT_EQ(out.size(), 3U);
  // fc.b has no L2: w -= 0.1 x (1 x 4 + 3 x 4) / 8
  EXPECT_EQ(one.values().back(), before - 0.1F * 2.0F);
  for (const net::Outgoing& answer : out) {
    const bool carries = answer.to != 101;
    const auto pushed = parse<wire::Pushed>(answer);
    EXPECT_EQ(pushed.has_values(), carries);
    EXPECT_EQ(answer.frame.tail.size(), carries ? one.values().size() * sizeof(float) : 0);
    EXPECT_EQ(pushed.last_applied(), 1U) << "every trainer has pushed its batch";
  }
  const auto again = push(one, 1, 3, 0, std::nullopt);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].frame.tail.empty()) << "a late copy is answered alike";
  one.finish(0, 0);
  one.finish(1, 0);
  const auto ended = one.finish(2, 0);
  ASSERT_EQ(ended.size(), 3U);
  EXPECT_EQ(parse<wire::PassFinished>(ended[0]).samples(), 8U) << "each sample counts once";
}

TEST(ShardNodes, TheSumOfNothingChangesNothing) {
  OneShard one(node_set(2));
  one.start();
  const auto before = one.values();
  push(one, 1, 0, 0, std::nullopt);
  const auto out = push(one, 0, 0, 0, 7);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(one.values(), before);
  EXPECT_TRUE(parse<wire::Pushed>(out[0].to == 100 ? out[0] : out[1]).has_values());
}

TEST(ShardNodes, RefusesSumsThatCannotBe) {
  OneShard one(node_set(2));
  one.start();
  expect_refused(push(one, 0, 1, 2 * parameter::kBatchSamplesMax + 1, 1), wire::REFUSAL_PROTOCOL,
                 "samples of its node");
  expect_refused(push(one, 0, 1, 1, std::nullopt), wire::REFUSAL_PROTOCOL, "part 0 of a push");
  OneShard plain(test::small_set("sgd", 2));
  plain.start();
  expect_refused(push(plain, 0, 1, 1, 1), wire::REFUSAL_PROTOCOL,
                 "trainer 0 pushed 1 samples of its node; the limit is 0");
  expect_refused(push(plain, 0, 1, 0, std::nullopt), wire::REFUSAL_PROTOCOL, "of its node");
  auto async = node_set(2);
  async.set_dense_strategy(wire::STRATEGY_ASYNC);
  OneShard wrong(async);
  expect_refused(wrong.join(0), wire::REFUSAL_PARAMETERS, "'node_groups' needs dense = 'sync'");
}

}  // namespace
}  // namespace paddle::pserver
