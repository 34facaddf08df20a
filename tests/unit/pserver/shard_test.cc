// A Shard called directly: what it answers, defers and refuses.
#include "engine/pserver/shard.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/pserver/parameters.h"

namespace paddle::pserver {
namespace {

class OneShard {
 public:
  explicit OneShard(wire::ParameterSet set, bool is_sparse = false, Duration grace = {},
                    std::uint64_t bytes_max = 1ULL << 40U)
      : set_(std::move(set)),
        is_sparse_(is_sparse),
        shard(ShardOptions{.is_sparse = is_sparse,
                           .num_gradient_servers = set_.num_trainers(),
                           .job_tag = 11,
                           .epoch = 5,
                           .lost_trainer_grace = grace,
                           .bytes_max = bytes_max}) {}

  template <class Message>
  std::vector<net::Outgoing> send(std::uint32_t trainer, FrameType type, Message message,
                                  Bytes tail = {}, std::uint64_t sequence = 0,
                                  std::uint64_t request = 0) {
    message.set_request(request != 0 ? request : ++request_);
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(type);
    frame.header.job_tag = 11;
    frame.header.sender = {Role::kTrainer, trainer};
    frame.header.incarnation = incarnation;
    frame.header.epoch = type == FrameType::kJoin ? 0 : 5;
    frame.header.sequence = sequence;
    frame.header.step = step;
    frame.head = message.SerializeAsString();
    frame.tail = std::move(tail);
    std::vector<net::Outgoing> out;
    shard.on_frame(now, peer_base + trainer, std::move(frame), out);
    net::keep_views(out);
    return out;
  }
  std::vector<net::Outgoing> join(std::uint32_t trainer) { return join_with(trainer, set_); }
  std::vector<net::Outgoing> join_with(std::uint32_t trainer, const wire::ParameterSet& set) {
    const std::string text = set.SerializeAsString();
    Bytes tail;
    append_bytes(tail, std::span<const char>(text));
    wire::Join message;
    message.set_shard(expected_shard);
    message.set_is_sparse(is_sparse_);
    return send(trainer, FrameType::kJoin, message, std::move(tail));
  }
  void start() {
    for (std::uint32_t id = 0; id < set_.num_trainers(); ++id) join(id);
    send(0, FrameType::kReady, wire::Ready());
  }
  std::vector<net::Outgoing> push(std::uint32_t trainer, std::uint64_t sequence, float gradient,
                                  std::uint64_t samples = 1) {
    wire::PushDense message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(samples);
    message.mutable_part()->set_cost_sum(0.5);
    message.set_count(shard.dense()->size());
    Bytes tail;
    const std::vector<float> values(shard.dense()->size(), gradient);
    append_bytes(tail, std::span<const float>(values));
    return send(trainer, FrameType::kPushDense, message, std::move(tail), sequence);
  }
  std::vector<net::Outgoing> push_row(std::uint32_t trainer, std::uint64_t sequence,
                                      std::uint64_t id, float gradient) {
    wire::PushRows message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(1);
    message.add_segments()->set_parameter(2);
    message.mutable_segments(0)->set_count(1);
    Bytes tail;
    append_bytes(tail, std::span<const std::uint64_t>(&id, 1));
    const std::vector<float> values(3, gradient);
    append_bytes(tail, std::span<const float>(values));
    return send(trainer, FrameType::kPushRows, message, std::move(tail), sequence);
  }
  std::vector<net::Outgoing> finish(std::uint32_t trainer, std::uint64_t pass,
                                    const Tally& tally = {}) {
    wire::FinishPass message;
    message.set_pass(pass);
    message.set_counts(tally.counts.size());
    message.set_sums(tally.sums.size());
    return send(trainer, FrameType::kFinishPass, message, encode(tally));
  }
  std::vector<float> values() const {
    return {shard.dense()->values().begin(), shard.dense()->values().end()};
  }

 private:
  wire::ParameterSet set_;
  bool is_sparse_;
  std::uint64_t request_ = 0;

 public:
  Shard shard;
  TimePoint now;
  std::uint32_t incarnation = 0;
  std::uint64_t step = 0;
  net::PeerId peer_base = 100;
  std::uint32_t expected_shard = 0;  // which port the trainer takes this one for
};

template <class Message>
Message parse(const net::Outgoing& outgoing) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(outgoing.frame.head));
  return message;
}

bool is(const std::vector<net::Outgoing>& out, FrameType type, std::size_t count = 1) {
  if (out.size() != count) return false;
  for (const auto& outgoing : out) {
    if (outgoing.frame.header.type != static_cast<std::uint8_t>(type)) return false;
  }
  return true;
}

void expect_refused(const std::vector<net::Outgoing>& out, wire::RefusalCode code,
                    const std::string& text) {
  ASSERT_TRUE(is(out, FrameType::kRefused));
  const auto refused = parse<wire::Refused>(out[0]);
  EXPECT_EQ(refused.code(), code) << refused.message();
  EXPECT_NE(refused.message().find(text), std::string::npos) << refused.message();
}

TEST(ShardJoin, AnotherParameterSetIsRefusedWithBothValues) {
  const auto set = test::small_set("sgd", 2);
  OneShard one(set);
  one.join(0);
  const auto refuse = [&](auto&& change, const std::string& text) {
    auto other = set;
    change(other);
    expect_refused(one.join_with(1, other), wire::REFUSAL_PARAMETERS, text);
  };
  refuse([](auto& s) { s.mutable_parameters(0)->set_dims(1, 9); },
         "parameter 'fc.w' dims is 6x4 here, 6x9 there");
  refuse([](auto& s) { s.mutable_parameters(1)->set_name("fc.c"); }, "is fc.b here, fc.c there");
  refuse([](auto& s) { s.mutable_optimizer()->set_method("adam"); }, "sgd here, adam there");
  refuse([](auto& s) { s.mutable_optimizer()->set_learning_rate(1); }, "0.1 here, 1 there");
  refuse([](auto& s) { s.set_dense_strategy(wire::STRATEGY_ASYNC); }, "sync here, async there");
  refuse([](auto& s) { s.set_num_trainers(3); }, "num_gradient_servers is 2 here, trainer 1 has 3");
  refuse([](auto& s) { s.mutable_parameters()->RemoveLast(); }, "3 here, 2 there");
  EXPECT_TRUE(is(one.join(1), FrameType::kPosition));
}

TEST(ShardJoin, InvalidSetOrPortIsRefused) {
  OneShard one(test::small_set("sgd", 1));
  auto bad = test::small_set("sgdd", 1);
  expect_refused(one.join_with(0, bad), wire::REFUSAL_PARAMETERS, "sgdd");
  bad = test::small_set("sgd", 1, 0);
  expect_refused(one.join_with(0, bad), wire::REFUSAL_PARAMETERS, "dense port 0");
  EXPECT_TRUE(is(one.join(0), FrameType::kPosition));
}

TEST(ShardJoin, LiveDuplicateAndOlderLifeAreRefusedNewerLifeTakesOver) {
  OneShard one(test::small_set("sgd", 2));
  one.incarnation = 3;
  one.start();
  one.peer_base = 200;
  expect_refused(one.join(1), wire::REFUSAL_DUPLICATE_TRAINER, "trainer_id 1");
  one.incarnation = 2;
  expect_refused(one.join(1), wire::REFUSAL_STALE_INCARNATION, "incarnation 3 has joined");
  one.incarnation = 4;
  EXPECT_TRUE(is(one.join(1), FrameType::kPosition));
  one.peer_base = 100;
  one.incarnation = 3;
  expect_refused(one.push(1, 1, 1), wire::REFUSAL_STALE_INCARNATION, "incarnation 3");
  expect_refused(one.join(7), wire::REFUSAL_PARAMETERS, "trainer_id 7");
}

TEST(ShardJoin, Trap09AnotherPortThanTheTrainerExpectsIsRefusedNamingBoth) {
  OneShard one(test::small_set("sgd", 1, 2, 2), true);
  one.expected_shard = 1;
  expect_refused(one.join(0), wire::REFUSAL_PARAMETERS,
                 "this is sparse port 0 of the job, trainer 0 expects sparse port 1");
  EXPECT_EQ(one.shard.sparse(2), nullptr);
  one.expected_shard = 0;
  EXPECT_TRUE(is(one.join(0), FrameType::kPosition));
}

TEST(ShardJoin, ARefusalFitsIntoAFrameWhateverThePeerSent) {
  const auto set = test::small_set("sgd", 2);
  auto endless = set;
  endless.mutable_parameters(0)->set_name(std::string(1U << 20U, 'n') + "\n\x1b[31m");
  for (const bool is_first : {true, false}) {
    OneShard one(set);
    if (!is_first) one.join(0);
    const auto out = one.join_with(1, endless);
    ASSERT_TRUE(is(out, FrameType::kRefused));
    encode_header(out[0].frame);  // checks the head's size
  }
  auto ugly = set;
  ugly.mutable_optimizer()->set_method("\x1b[31m");
  OneShard one(set);
  one.join(0);
  expect_refused(one.join_with(1, ugly), wire::REFUSAL_PARAMETERS, "\\x1b[31m");
}

TEST(ShardReady, OthersWaitForTrainerZero) {
  OneShard one(test::small_set("sgd", 2));
  one.join(0);
  one.join(1);
  EXPECT_TRUE(one.send(1, FrameType::kReady, wire::Ready()).empty());
  expect_refused(one.push(0, 1, 1), wire::REFUSAL_PROTOCOL, "before Ready");
  EXPECT_TRUE(is(one.send(0, FrameType::kReady, wire::Ready()), FrameType::kPosition, 2));
}

TEST(ShardSync, RoundCommitsOnceWhenEveryActiveTrainerPushed) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  const auto before = one.values();
  EXPECT_TRUE(one.push(1, 1, 3).empty());
  EXPECT_EQ(one.values(), before);
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed, 2));
  // fc.b has no L2: w -= 0.1 x mean(1, 3)
  const auto after = one.values();
  EXPECT_EQ(after.back(), before.back() - 0.1F * 2.0F);
  EXPECT_EQ(one.shard.step(), 1U);
}

TEST(ShardSync, RepeatedPushIsAcknowledgedAndNotApplied) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  EXPECT_TRUE(is(one.push(0, 1, 1), FrameType::kPushed));
  const auto once = one.values();
  const auto again = one.push(0, 1, 1);
  ASSERT_TRUE(is(again, FrameType::kPushed));
  EXPECT_EQ(parse<wire::Pushed>(again[0]).last_applied(), 1U);
  EXPECT_EQ(again[0].frame.tail.size(), once.size() * sizeof(float));
  EXPECT_EQ(one.values(), once);
  expect_refused(one.push(0, 3, 1), wire::REFUSAL_GAP, "sent batch 3, but 1 is the last");
  EXPECT_EQ(one.values(), once);
}

TEST(ShardSync, APushInPartsIsAppliedOnceWhateverComesTwice) {
  OneShard one(test::small_set("sgd", 1), false, std::chrono::seconds(30));
  one.start();
  const auto before = one.values();
  const std::uint64_t size = before.size();
  const auto part = [&](std::uint32_t number, std::uint64_t offset, std::uint64_t count) {
    wire::PushDense message;
    message.mutable_part()->set_part(number);
    message.mutable_part()->set_parts(2);
    message.mutable_part()->set_samples(1);
    message.set_offset(offset);
    message.set_count(count);
    Bytes tail;
    const std::vector<float> values(count, 1);
    append_bytes(tail, std::span<const float>(values));
    return one.send(0, FrameType::kPushDense, message, std::move(tail), 1);
  };
  EXPECT_TRUE(is(part(0, 0, 3), FrameType::kStored));
  EXPECT_TRUE(is(part(0, 0, 3), FrameType::kStored));
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 100, out);
  one.incarnation = 1;  // a new life begins its batch anew
  one.join(0);
  expect_refused(part(1, 3, size - 3), wire::REFUSAL_PROTOCOL, "part 1 of 2 after 0 parts");
  EXPECT_TRUE(is(part(0, 0, 5), FrameType::kStored));
  EXPECT_EQ(one.values(), before);
  EXPECT_TRUE(is(part(1, 5, size - 5), FrameType::kPushed));
  EXPECT_EQ(one.values().back(), before.back() - 0.1F);
  EXPECT_TRUE(is(part(1, 5, size - 5), FrameType::kPushed));
  EXPECT_TRUE(is(part(0, 0, 5), FrameType::kPushed));
  EXPECT_EQ(one.values().back(), before.back() - 0.1F);
}

TEST(ShardValues, RowsOverTheLimitAreRefusedFromAPushAndFromASnapshot) {
  OneShard one(test::small_set("sgd", 1), true, {}, 2 * (3 * sizeof(float) + 24));
  one.join(0);
  const auto put = [&](std::vector<std::uint64_t> ids) {
    wire::PutRows message;
    message.set_parameter(2);
    message.set_count(ids.size());
    Bytes tail;
    append_bytes(tail, std::span<const std::uint64_t>(ids));
    append_bytes(tail, std::span<const std::uint64_t>(ids));  // the update counts
    const std::vector<float> values(3 * ids.size());
    append_bytes(tail, std::span<const float>(values));
    return one.send(0, FrameType::kPutRows, message, std::move(tail));
  };
  expect_refused(put({1, 2, 3}), wire::REFUSAL_LIMIT, "table 'words' would grow over the limit");
  EXPECT_EQ(one.shard.sparse(2)->rows(), 0U);
  EXPECT_TRUE(is(put({1}), FrameType::kDone));
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(is(one.push_row(0, 1, 8, 1), FrameType::kPushed));
  one.step = 1;
  expect_refused(one.push_row(0, 2, 9, 1), wire::REFUSAL_LIMIT, "would grow over the limit");
}

TEST(ShardSync, TakesDenseParametersUpToItsBytesAndNamesTheOneThatIsTooMuch) {
  constexpr std::uint64_t kNeeded = (6 * 4 + 1 * 4) * 2 * sizeof(float);  // values and momentum
  OneShard fits(test::small_set("momentum", 1), false, {}, kNeeded);
  EXPECT_TRUE(is(fits.join(0), FrameType::kPosition));
  OneShard one(test::small_set("momentum", 1), false, {}, kNeeded - 1);
  const auto out = one.join(0);
  expect_refused(out, wire::REFUSAL_LIMIT, "fc.b");
  EXPECT_NE(parse<wire::Refused>(out[0]).hint().find("more pservers"), std::string::npos);
}

// Replies show the table itself until they are written: one call that applies two pushes must give
// each trainer the values after its own.
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

TEST(ShardSync, LateCopyOfAnOldRequestIsIgnored) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  one.push(0, 1, 1);
  const auto once = one.values();
  wire::PullDense pull;
  pull.set_count(1);
  EXPECT_TRUE(one.send(0, FrameType::kPullDense, pull, {}, 0, 1).empty());
  EXPECT_EQ(one.values(), once);
}

TEST(ShardSync, PullOfALaterStepIsAnsweredAfterTheCommit) {
  OneShard one(test::small_set("sgd", 2), false, std::chrono::seconds(30));
  one.start();
  EXPECT_TRUE(one.push(1, 1, 1).empty());
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 101, out);
  one.incarnation = 1;  // comes back after its push was taken, and asks for what follows it
  ASSERT_TRUE(is(one.join(1), FrameType::kPosition));
  wire::PullDense pull;
  pull.set_count(2);
  one.step = 1;
  EXPECT_TRUE(one.send(1, FrameType::kPullDense, pull).empty());
  one.incarnation = 0;
  one.step = 0;
  out = one.push(0, 1, 1);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].frame.header.type, static_cast<std::uint8_t>(FrameType::kPushed));
  EXPECT_EQ(out[1].frame.header.type, static_cast<std::uint8_t>(FrameType::kDenseValues));
  EXPECT_EQ(parse<wire::DenseValues>(out[1]).step(), 1U);
}

TEST(ShardSync, FinishedTrainerLeavesTheRoundAndThePassEndsWithTheLast) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  EXPECT_TRUE(one.push(0, 1, 1, 5).empty());
  const auto out = one.finish(1, 0);
  ASSERT_TRUE(is(out, FrameType::kPushed));
  EXPECT_EQ(out[0].to, 100U);
  const auto ends = one.finish(0, 0);
  ASSERT_TRUE(is(ends, FrameType::kPassFinished, 2));
  const auto totals = parse<wire::PassFinished>(ends[1]);
  EXPECT_EQ(totals.samples(), 5U);
  EXPECT_EQ(totals.cost_sum(), 0.5);
  EXPECT_EQ(totals.passes_finished(), 1U);
  const auto again = one.finish(0, 0);
  ASSERT_TRUE(is(again, FrameType::kPassFinished));
  EXPECT_EQ(parse<wire::PassFinished>(again[0]).samples(), 5U);
  one.step = 1;
  EXPECT_TRUE(one.push(1, 1, 1).empty());  // the next pass has everyone again
  EXPECT_TRUE(is(one.push(0, 2, 1), FrameType::kPushed, 2));
}

Tally tally_of(const net::Outgoing& outgoing) {
  const auto message = parse<wire::PassFinished>(outgoing);
  return *decode_tally(outgoing.frame.tail, message.counts(), message.sums());
}

TEST(ShardSync, TalliesOfTrainersAreAddedInTheirOrderWhateverTheArrival) {
  // 1 + 1e16 - 1e16 is 0 or 1 by the order of the sum.
  const std::vector<Tally> tallies{{{1, 2}, {1e16}}, {{10, 20}, {-1e16}}, {{100, 200}, {1}}};
  for (const std::vector<std::uint32_t>& order :
       {std::vector<std::uint32_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    OneShard one(test::small_set("sgd", 3));
    one.start();
    one.finish(order[0], 0, tallies[order[0]]);
    one.finish(order[0], 0, tallies[order[0]]);  // a request that comes again counts once
    one.finish(order[1], 0, tallies[order[1]]);
    const auto out = one.finish(order[2], 0, tallies[order[2]]);
    ASSERT_TRUE(is(out, FrameType::kPassFinished, 3));
    for (const net::Outgoing& answer : out) {
      EXPECT_EQ(tally_of(answer).counts, (std::vector<std::uint64_t>{111, 222}));
      EXPECT_EQ(tally_of(answer).sums, std::vector<double>{1});
    }
    EXPECT_EQ(tally_of(one.finish(0, 0)[0]).counts, (std::vector<std::uint64_t>{111, 222}));
    for (const std::uint32_t id : {0U, 1U}) one.finish(id, 1, tallies[id]);
    EXPECT_EQ(tally_of(one.finish(2, 1, tallies[2])[0]).counts,
              (std::vector<std::uint64_t>{111, 222}));  // and a pass starts from nothing
  }
}

TEST(ShardSync, TalliesOfAnotherShapeAreRefused) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  one.finish(0, 0, {{1, 2}, {}});
  expect_refused(one.finish(1, 0, {{1}, {2}}), wire::REFUSAL_PARAMETERS,
                 "the evaluators of trainer 1 have 1 counts and 1 sums, those of trainer 0 have 2 "
                 "and 0");
  wire::FinishPass lie;
  lie.set_counts(3);
  expect_refused(one.send(1, FrameType::kFinishPass, lie), wire::REFUSAL_PROTOCOL,
                 "3 counts and 0 sums in 0 bytes");
}

TEST(ShardSync, LostTrainerFailsThoseWhoWait) {
  OneShard one(test::small_set("sgd", 3));
  one.start();
  one.push(0, 1, 1);
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 102, out);
  expect_refused(out, wire::REFUSAL_TRAINER_LOST, "trainer 2 lost at step 0");
  EXPECT_EQ(one.shard.failure(), "trainer 2 lost at step 0");
  expect_refused(one.push(1, 1, 1), wire::REFUSAL_TRAINER_LOST, "trainer 2 lost");
}

TEST(ShardSync, LostTrainerMayComeBackWithinTheGrace) {
  OneShard one(test::small_set("sgd", 2), false, std::chrono::seconds(30));
  one.start();
  EXPECT_TRUE(one.push(0, 1, 1).empty());
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 101, out);
  one.now += std::chrono::milliseconds(500);
  one.shard.on_tick(one.now, out);
  EXPECT_TRUE(out.empty());
  one.incarnation = 1;
  EXPECT_TRUE(is(one.join(1), FrameType::kPosition));
  EXPECT_TRUE(is(one.push(1, 1, 1), FrameType::kPushed, 2));
  one.shard.on_disconnect(one.now, 101, out);
  one.now += std::chrono::seconds(31);
  one.shard.on_tick(one.now, out);
  EXPECT_EQ(one.shard.failure(), "trainer 1 lost at step 1");
}

TEST(ShardSync, WaitingNamesTheMissingTrainers) {
  OneShard one(test::small_set("sgd", 4));
  one.start();
  one.push(2, 1, 1);
  std::vector<net::Outgoing> out;
  one.shard.on_tick(one.now + kNoticePeriod, out);
  ASSERT_TRUE(is(out, FrameType::kWaiting));
  EXPECT_EQ(parse<wire::Waiting>(out[0]).reason(), "trainers 0, 1, 3 to push step 0");
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
  out = one.finish(1, 0);  // who has no more data holds nobody
  EXPECT_TRUE(is(out, FrameType::kPushed));
}

// g + lambda g g (w - w the trainer saw), Zheng et al. 2017.
TEST(ShardAsync, DelayCompensationFollowsItsFormula) {
  auto set = test::small_set("sgd", 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  set.set_delay_compensation(0.5F);
  for (auto& spec : *set.mutable_parameters()) spec.set_l2(0);
  OneShard one(set);
  one.start();
  wire::PullDense pull;
  pull.set_count(one.shard.dense()->size());
  one.send(1, FrameType::kPullDense, pull);
  const auto seen = one.values();
  one.push(0, 1, 2);
  const auto before = one.values();
  one.push(1, 1, 3);
  const auto after = one.values();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_NE(before[i], seen[i]);
    const float gradient = 3 + 0.5F * 3 * 3 * (before[i] - seen[i]);
    EXPECT_FLOAT_EQ(after[i], before[i] - 0.1F * gradient);
  }
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

TEST(ShardValues, NotFiniteIsRefusedNamingParameterAndTrainer) {
  for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
    auto set = test::small_set("sgd", 1);
    set.set_dense_strategy(strategy);
    set.set_sparse_strategy(strategy);
    OneShard dense(set);
    dense.start();
    const auto before = dense.values();
    expect_refused(dense.push(0, 1, std::nanf("")), wire::REFUSAL_NOT_FINITE,
                   "trainer 0 pushed a gradient of 'fc.w'");
    EXPECT_EQ(dense.values(), before);
    OneShard sparse(set, true);
    sparse.start();
    expect_refused(sparse.push_row(0, 1, 8, INFINITY), wire::REFUSAL_NOT_FINITE, "'words'");
    EXPECT_EQ(sparse.shard.sparse(2)->rows(), 0U);
    EXPECT_TRUE(is(sparse.push_row(0, 1, 8, 1), FrameType::kPushed));
    EXPECT_EQ(sparse.shard.sparse(2)->rows(), 1U);
  }
}

TEST(ShardFrames, WrongJobEpochStrangerAndGarbageAreRefused) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  std::vector<net::Outgoing> out;
  const auto send = [&](auto&& change) {
    Frame frame;
    frame.header = {.type = static_cast<std::uint8_t>(FrameType::kPullDense),
                    .job_tag = 11,
                    .sender = {Role::kTrainer, 0},
                    .epoch = 5};
    change(frame);
    out.clear();
    one.shard.on_frame(one.now, 100, std::move(frame), out);
  };
  send([](Frame& f) { f.header.job_tag = 12; });
  expect_refused(out, wire::REFUSAL_WRONG_JOB, "000000000000000b");
  send([](Frame& f) { f.header.epoch = 4; });
  expect_refused(out, wire::REFUSAL_STALE_EPOCH, "epoch 4");
  send([](Frame& f) { f.header.sender.index = 9; });
  expect_refused(out, wire::REFUSAL_PROTOCOL, "has not joined");
  send([](Frame& f) { f.head = "\xff\xff\xff"; });
  expect_refused(out, wire::REFUSAL_PROTOCOL, "malformed head");
  send([](Frame& f) { f.header.type = 200; });
  expect_refused(out, wire::REFUSAL_PROTOCOL, "type 200");
}

TEST(ShardSync, ShardWithoutBlocksTakesPart) {
  auto set = test::small_set("sgd", 2);
  set.mutable_parameters()->DeleteSubrange(0, 2);
  set.set_dense_shards(1);
  OneShard one(set);
  one.start();
  EXPECT_EQ(one.shard.dense()->size(), 0U);
  EXPECT_TRUE(one.push(0, 1, 0).empty());
  EXPECT_TRUE(is(one.push(1, 1, 0), FrameType::kPushed, 2));
  EXPECT_EQ(one.shard.step(), 1U);
}

TEST(ShardLife, FinishedWhenAllTrainersAreGone) {
  OneShard one(test::small_set("sgd", 2));
  EXPECT_FALSE(one.shard.finished());
  one.start();
  one.send(0, FrameType::kLeave, wire::Leave());
  EXPECT_FALSE(one.shard.finished());
  one.send(1, FrameType::kLeave, wire::Leave());
  EXPECT_TRUE(one.shard.finished());
}

TEST(ShardLife, FinishedWhenAFailedJobHasNobodyLeft) {
  OneShard one(test::small_set("sgd", 3));
  one.join(0);
  one.join(1);  // trainer 2 never comes
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 101, out);
  EXPECT_FALSE(one.shard.finished());
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_TRUE(one.shard.finished());
}

TEST(ShardLife, NotFinishedWhileALostTrainerMayComeBack) {
  OneShard one(test::small_set("sgd", 1), false, std::chrono::seconds(30));
  one.start();
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_FALSE(one.shard.finished());
  one.now += std::chrono::seconds(31);
  one.shard.on_tick(one.now, out);
  EXPECT_TRUE(one.shard.finished());
}

// Two trainers with little to push each time use up what was reserved for one with much, whose push
// waits for the slowest.
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

TEST(ShardLimits, CandidatesCountAgainstThePortsLimit) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(2)->mutable_table()->set_entry_count(3);
  constexpr std::uint64_t kBytesMax = 1U << 20U;
  OneShard one(set, true, {}, kBytesMax);
  one.start();
  constexpr std::uint64_t kRows = 1000;
  std::uint64_t pushed = 0;
  for (one.step = 0; one.step < 200; ++one.step) {
    wire::PushRows message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(1);
    message.add_segments()->set_parameter(2);
    message.mutable_segments(0)->set_count(kRows);
    Bytes tail;
    for (std::uint64_t i = 0; i < kRows; ++i) {
      const std::uint64_t id = pushed + i;
      append_bytes(tail, std::span<const std::uint64_t>(&id, 1));
    }
    const std::vector<float> values(kRows * 3, 0.0F);
    append_bytes(tail, std::span<const float>(values));
    const auto out = one.send(0, FrameType::kPushRows, message, std::move(tail), one.step + 1);
    if (!is(out, FrameType::kPushed)) {
      expect_refused(out, wire::REFUSAL_LIMIT, "over the limit of this port");
      break;
    }
    pushed += kRows;
  }
  EXPECT_EQ(one.shard.sparse(2)->rows(), 0U);
  EXPECT_GT(pushed, 0U);
  EXPECT_LE(pushed * 16, kBytesMax);
}

}  // namespace
}  // namespace paddle::pserver
