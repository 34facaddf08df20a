// Rounds of a Shard: waiting for all trainers, one update a round, the same values for all.
#include <gtest/gtest.h>

#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

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

TEST(ShardSync, TellsWhomTheOthersWaitForAndSinceWhen) {
  OneShard one(test::small_set("sgd", 3));
  one.start();
  EXPECT_FALSE(one.shard.awaited());
  const TimePoint begun = one.now;
  one.push(0, 1, 1);
  one.now += std::chrono::seconds(5);
  one.push(2, 1, 1);
  const auto awaited = one.shard.awaited();
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->trainers, std::vector<std::uint32_t>{1});
  EXPECT_EQ(awaited->since, begun);
  one.push(1, 1, 1);
  EXPECT_FALSE(one.shard.awaited());
}

TEST(ShardSync, OfATrainerThatIsStillBeforeTheStartAllOthersAreTold) {
  OneShard one(test::small_set("sgd", 2));
  one.join(1);
  one.send(1, FrameType::kReady, wire::Ready());
  const auto awaited = one.shard.awaited();
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->trainers, std::vector<std::uint32_t>{0});
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
  one.incarnation = 1;  // a new incarnation begins its batch anew
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

TEST(ShardSync, TakesDenseParametersUpToItsBytesAndNamesTheOneThatIsTooMuch) {
  constexpr std::uint64_t kNeeded = (6 * 4 + 1 * 4) * 2 * sizeof(float);  // values and momentum
  OneShard fits(test::small_set("momentum", 1), false, {}, kNeeded);
  EXPECT_TRUE(is(fits.join(0), FrameType::kPosition));
  OneShard one(test::small_set("momentum", 1), false, {}, kNeeded - 1);
  const auto out = one.join(0);
  expect_refused(out, wire::REFUSAL_LIMIT, "fc.b");
  EXPECT_NE(parse<wire::Refused>(out[0]).hint().find("more pservers"), std::string::npos);
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
  // Comes back after its push was taken, and asks for what follows it.
  ASSERT_TRUE(is(one.join(1), FrameType::kPosition));
  wire::PullDense pull;
  pull.set_count(2);
  one.step = 1;
  EXPECT_TRUE(one.send(1, FrameType::kPullDense, pull).empty());
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
  return *decode_tally(outgoing.frame.tail, message.counts(), message.sums(), message.histograms(),
                       message.grouped());
}

ScoreHistogram histogram_of(std::vector<std::uint64_t> examples, std::size_t entries_max) {
  ScoreHistogram made(entries_max);
  made.add(examples);
  return made;
}

TEST(ShardSync, HistogramsOfTrainersAddUpToThatOfAllTheirExamples) {
  std::vector<std::uint64_t> all;
  std::vector<Tally> tallies;
  for (std::uint64_t trainer = 0; trainer < 3; ++trainer) {
    std::vector<std::uint64_t> own;
    for (std::uint64_t i = 0; i < 9000; ++i)
      own.push_back((i * 7919 + trainer * 31) << 40U | ((i + trainer) % 5 == 0 ? 1U : 0U));
    all.insert(all.end(), own.begin(), own.end());
    tallies.push_back({{}, {}, {histogram_of(own, ScoreHistogram::kEntriesMax)}});
  }
  const ScoreHistogram whole = histogram_of(all, ScoreHistogram::kEntriesMax);
  EXPECT_GT(whole.shift(), 0U);
  for (const std::vector<std::uint32_t>& order : {std::vector<std::uint32_t>{0, 1, 2}, {2, 0, 1}}) {
    OneShard one(test::small_set("sgd", 3));
    one.start();
    for (const std::uint32_t id : {order[0], order[1]}) one.finish(id, 0, tallies[id]);
    const auto out = one.finish(order[2], 0, tallies[order[2]]);
    ASSERT_TRUE(is(out, FrameType::kPassFinished, 3));
    EXPECT_EQ(tally_of(out[0]).histograms, std::vector{whole});
  }
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
  expect_refused(
      one.finish(1, 0, {{1}, {2}}), wire::REFUSAL_PARAMETERS,
      "the evaluators of trainer 1 have 1 counts, 1 sums, 0 histograms and 0 scores by group, "
      "those of trainer 0 have 2, 0, 0 and 0");
  wire::FinishPass lie;
  lie.set_counts(3);
  expect_refused(one.send(1, FrameType::kFinishPass, lie), wire::REFUSAL_PROTOCOL,
                 "3 counts, 0 sums, 0 histograms and 0 scores by group do not fit 0 bytes");
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

// A process that hangs neither asks anything nor closes its connection.
TEST(ShardSync, AFailedJobEndsThoughATrainerStaysConnected) {
  OneShard one(test::small_set("sgd", 3));
  one.start();
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 102, out);
  EXPECT_FALSE(one.shard.finished()) << "the others are to hear why";
  one.now += kFailureLinger / 2;
  one.shard.on_tick(one.now, out);
  expect_refused(one.push(0, 1, 1), wire::REFUSAL_TRAINER_LOST, "trainer 2 lost");
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_FALSE(one.shard.finished());
  one.now += kFailureLinger / 2;
  one.shard.on_tick(one.now, out);
  EXPECT_TRUE(one.shard.finished());
}

TEST(ShardSync, AFailedJobEndsAtOnceWhenNoTrainerIsLeft) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 101, out);
  EXPECT_FALSE(one.shard.finished());
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_TRUE(one.shard.finished());
}

TEST(ShardSync, AFailedJobEndsThoughNoTrainerWasLost) {
  OneShard one(test::small_set("sgd", 2), {.server_generation = kFirstIncarnation});
  one.generation = kFirstIncarnation;
  one.join(0);
  one.join(1);
  std::vector<net::Outgoing> out;
  one.send(0, FrameType::kLeave, wire::Leave());  // before initial values were in place
  EXPECT_EQ(one.shard.failure(), "trainer 0 left before the parameters were ready");
  one.shard.on_tick(one.now, out);
  one.now += kFailureLinger;
  one.shard.on_tick(one.now, out);
  EXPECT_TRUE(one.shard.finished());
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

// Each of many that wait is told about many others every second.
TEST(ShardSync, WaitingNamesAFewOfManyMissingTrainers) {
  OneShard one(test::small_set("sgd", 800));
  one.start();
  one.push(0, 1, 1);
  std::vector<net::Outgoing> out;
  one.shard.on_tick(one.now + kNoticePeriod, out);
  ASSERT_TRUE(is(out, FrameType::kWaiting));
  EXPECT_EQ(parse<wire::Waiting>(out[0]).reason(),
            "trainers 1, 2, 3, 4, 5, 6, 7, 8 and 791 more to push step 0");
}

// Whether trainer 1, which waits, is told within a period of notices that the job goes on.
bool goes_on(OneShard& one) {
  std::vector<std::uint64_t> progress;
  for (int i = 0; i < 2; ++i) {
    std::vector<net::Outgoing> out;
    one.now += kNoticePeriod;
    one.shard.on_tick(one.now, out);
    EXPECT_TRUE(is(out, FrameType::kWaiting));
    progress.push_back(parse<wire::Waiting>(out.at(0)).progress());
  }
  return progress[1] > progress[0];
}

TEST(ShardSync, ATrainerThatTestsOrSavesIsWaitedForHoweverLongItTakes) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  EXPECT_TRUE(one.push(1, 1, 1).empty());
  EXPECT_FALSE(goes_on(one)) << "trainer 0 may hang";
  EXPECT_TRUE(is(one.send(0, FrameType::kBusy, wire::Busy()), FrameType::kDone));
  EXPECT_TRUE(goes_on(one));
  one.push(0, 1, 1);
  ++one.step;
  EXPECT_TRUE(one.push(1, 2, 1).empty());
  EXPECT_FALSE(goes_on(one)) << "its push was the end of that";
}

TEST(ShardSync, ABusyTrainerIsNoLongerOneAtTheEndOfAPass) {
  OneShard one(test::small_set("sgd", 2));
  one.start();
  one.send(0, FrameType::kBusy, wire::Busy());
  EXPECT_TRUE(one.push(1, 1, 1).empty());
  EXPECT_TRUE(goes_on(one));
  one.finish(0, 0);
  one.finish(1, 0);
  ++one.step;
  EXPECT_TRUE(one.push(1, 2, 1).empty());
  EXPECT_FALSE(goes_on(one));
}

TEST(ShardSync, ABusyTrainerThatComesBackIsNotBusy) {
  OneShard one(test::small_set("sgd", 2), false, std::chrono::seconds(30));
  one.start();
  one.send(0, FrameType::kBusy, wire::Busy());
  EXPECT_TRUE(one.push(1, 1, 1).empty());
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_FALSE(goes_on(one)) << "it is gone";
  one.incarnation = 1;
  one.join(0);
  EXPECT_FALSE(goes_on(one));
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

}  // namespace
}  // namespace paddle::pserver
