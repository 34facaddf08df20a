// A shard that becomes what it was at a savepoint.
#include "tests/unit/engine/pserver/savepoints_fixture.h"

namespace paddle::pserver {
namespace {

using GoBack = SavepointsFixture;

ScoreHistogram two_scores() {
  std::vector<std::uint64_t> examples{5ULL << 32U, 9ULL << 32U | 1U};
  ScoreHistogram made;
  made.add(examples);
  return made;
}

GroupedScores one_group() {
  GroupedScores made(GroupedScores::kSentMax);
  std::array<GroupedScores::Example, 1> example{{{7, 1}}};
  made.add(example);
  return made;
}

const Tally kTally{{3, 4}, {0.5}, {two_scores()}, {one_group()}};

void one_push(OneShard& one, std::uint64_t sequence) {
  EXPECT_TRUE(is(one.push(0, sequence, 1), FrameType::kPushed));
}

TEST_F(GoBack, ValuesAndTheirStateAreThoseOfTheSavepoint) {
  for (const bool is_sparse : {false, true}) {
    files = test::MemoryFiles();
    OneShard straight(savepoint_set(2, "momentum"), is_sparse);
    OneShard one(savepoint_set(2, "momentum"), options(is_sparse));
    straight.start();
    one.start();
    settle(one);
    for (const std::uint64_t sequence : {1, 2, 3}) {
      round(straight, sequence, static_cast<float>(sequence));
      savepoint_round(one, sequence, static_cast<float>(sequence));
    }
    round(one, 4, 1000);
    const wire::Position before = join_again(one);
    EXPECT_EQ(before.step(), 4U);
    ASSERT_TRUE(is(go_back(one, 4), FrameType::kPosition));
    EXPECT_EQ(one.shard.step(), 3U);
    one.send(0, FrameType::kReady, wire::Ready());
    const auto same = [&] {
      if (!is_sparse) return straight.values() == one.values();
      return rows_of(straight) == rows_of(one);
    };
    EXPECT_TRUE(same());
    round(straight, 4, 4);
    EXPECT_FALSE(same());
    round(one, 4, 4);
    EXPECT_TRUE(same()) << "momentum too";
    savepoint_round(one, 5, 5);
    settle(one);
    EXPECT_EQ(savepoints_of(join_again(one)).back(), 6U) << "savepoints go on";
  }
}

TEST_F(GoBack, ThePlaceOfTheSnapshotIsNotForgotten) {
  OneShard one(savepoint_set(2), options());
  one.join(0);
  one.join(1);
  wire::PassOrigins origins;
  for (const std::uint64_t number : {7, 8}) {
    origins.add_batches(number);
    origins.add_records(10 * number);
    origins.add_data(100 * number);
  }
  wire::LoadBegin begin;
  for (const std::uint64_t batches : origins.batches()) begin.add_pass_batches(batches);
  Bytes tail;
  append_bytes(tail, std::span<const char>(origins.SerializeAsString()));
  one.send(0, FrameType::kLoadBegin, begin, std::move(tail));
  one.send(0, FrameType::kReady, wire::Ready());
  savepoint_round(one, 1, 1);
  const std::uint64_t savepoint = savepoints_of(join_again(one)).back();
  OneShard next(savepoint_set(2), options(false, 0, 2));
  join_again(next);
  const auto out = go_back(next, savepoint);
  ASSERT_TRUE(is(out, FrameType::kPosition));
  EXPECT_EQ(parse<wire::Position>(out[0]).origin().records(), 70U) << "in another incarnation too";
}

TEST_F(GoBack, CountersAndCursorsAreThoseOfTheSavepoint) {
  OneShard one(savepoint_set(2), options());
  one.start();
  round(one, 1, 1);
  one.finish(0, 0, kTally);
  one.finish(1, 0, kTally);
  round(one, 2, 1);
  savepoint_round(one, 3, 1);
  wire::Position at_savepoint = join_again(one);
  round(one, 4, 1);
  one.finish(0, 1);
  one.finish(1, 1);
  join_again(one);
  const auto out = go_back(one, 5);
  ASSERT_TRUE(is(out, FrameType::kPosition));
  auto position = parse<wire::Position>(out[0]);
  EXPECT_FALSE(position.ready()) << "until trainer 0 says so";
  EXPECT_EQ(position.step(), 3U);
  EXPECT_EQ(position.samples(), 6U);
  EXPECT_EQ(position.passes_finished(), 1U);
  EXPECT_EQ(position.last_applied(), 3U);
  EXPECT_EQ(savepoints_of(position).back(), 5U);
  for (wire::Position* const each : {&position, &at_savepoint}) {
    each->clear_ready();
    each->clear_request();
  }
  EXPECT_EQ(position.SerializeAsString(), at_savepoint.SerializeAsString());
  one.send(0, FrameType::kReady, wire::Ready());
  // The totals of the pass go on from those of the savepoint.
  one.finish(0, 1);
  const auto ended = one.finish(1, 1);
  ASSERT_TRUE(is(ended, FrameType::kPassFinished, 2));
  EXPECT_EQ(parse<wire::PassFinished>(ended[0]).samples(), 4U);
  EXPECT_EQ(parse<wire::PassFinished>(ended[0]).batches(), 4U);
}

TEST_F(GoBack, PassesAndThePauseBeforeTheSavepointAreToldAgain) {
  OneShard one(savepoint_set(2), options());
  one.start();
  for (const std::uint64_t pass : {0, 1}) {
    round(one, pass + 1, 1);
    one.finish(0, pass, kTally);
    one.finish(1, pass, kTally);
  }
  pause(one, 0, 2, 0);
  EXPECT_TRUE(is(pause(one, 1, 2, 0), FrameType::kPassFinished, 2));
  savepoint_round(one, 3, 1);
  join_again(one);
  ASSERT_TRUE(is(go_back(one, 6), FrameType::kPosition));
  one.send(0, FrameType::kReady, wire::Ready());
  for (const std::uint64_t pass : {0, 1}) {
    const auto out = one.finish(0, pass, kTally);
    ASSERT_TRUE(is(out, FrameType::kPassFinished)) << pass;
    const auto told = parse<wire::PassFinished>(out[0]);
    EXPECT_EQ(told.passes_finished(), pass + 1);
    EXPECT_EQ(told.samples(), 2U);
    const auto tally =
        decode_tally(out[0].frame.tail, told.counts(), told.sums(), told.histograms(), 1);
    ASSERT_TRUE(tally);
    ScoreHistogram both = two_scores();
    both.add(two_scores());
    EXPECT_EQ(tally->histograms, std::vector{both});
    GroupedScores both_groups = one_group();
    both_groups.add(one_group());
    EXPECT_EQ(tally->grouped, std::vector{both_groups});
    EXPECT_EQ(tally->counts, (std::vector<std::uint64_t>{6, 8}));
    EXPECT_EQ(tally->sums, std::vector<double>{1.0});
  }
  const auto paused = pause(one, 0, 2, 0);
  ASSERT_TRUE(is(paused, FrameType::kPassFinished));
  EXPECT_TRUE(parse<wire::PassFinished>(paused[0]).paused());
  EXPECT_TRUE(pause(one, 0, 2, 1).empty()) << "the next one waits for the other";
}

TEST_F(GoBack, FramesOfBeforeAreRefused) {
  OneShard one(savepoint_set(2), options());
  one.start();
  savepoint_round(one, 1, 1);
  const std::uint64_t before = one.generation;
  ASSERT_TRUE(is(go_back(one, 2), FrameType::kPosition));
  const std::uint64_t after = one.generation;
  EXPECT_NE(after, before);
  one.generation = before;
  expect_refused(one.push(0, 2, 1), wire::REFUSAL_STALE_GENERATION, "generation");
  expect_refused(one.send(0, FrameType::kReady, wire::Ready()), wire::REFUSAL_STALE_GENERATION,
                 "generation");
  one.generation = after;
  ASSERT_TRUE(is(go_back(one, 2), FrameType::kPosition));
  EXPECT_NE(one.generation, after) << "each way back has its own";
}

TEST_F(GoBack, WhoWaitsIsToldToJoinAgain) {
  OneShard one(savepoint_set(3), options());
  one.start();
  savepoint_round(one, 1, 1, 3);
  one.step = 1;
  EXPECT_TRUE(one.push(1, 2, 1).empty());
  EXPECT_TRUE(one.finish(2, 0).empty());
  const auto out = go_back(one, 2);
  ASSERT_EQ(out.size(), 3U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(out[i].to, 101U + i);
    EXPECT_EQ(parse<wire::Refused>(out[i]).code(), wire::REFUSAL_STALE_GENERATION);
  }
  EXPECT_EQ(out[2].frame.header.type, static_cast<std::uint8_t>(FrameType::kPosition));
  // Their requests of before are gone.
  one.generation = out[2].frame.header.server_generation;
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(one.push(0, 2, 1).empty());
  EXPECT_TRUE(one.push(2, 2, 1).empty());
  EXPECT_TRUE(is(one.push(1, 2, 1), FrameType::kPushed, 3));
}

TEST_F(GoBack, OnlyTrainerZeroMakesAShardGoBackAndOnlyToASavepointThatItHas) {
  OneShard one(savepoint_set(2), options());
  one.start();
  savepoint_round(one, 1, 1);
  expect_refused(go_back(one, 2, 1), wire::REFUSAL_PROTOCOL, "only trainer 0");
  expect_refused(go_back(one, 3), wire::REFUSAL_PROTOCOL, "no savepoint 3");
  EXPECT_TRUE(is(round(one, 2, 1), FrameType::kPushed, 2)) << "nothing has changed";
}

TEST_F(GoBack, AnAsynchronousShardGoesBackAlone) {
  std::vector<float> expected;
  {
    OneShard lost(async_set(1), options());
    lost.start();
    tick(lost);
    one_push(lost, 1);
    one_push(lost, 2);
    tick(lost, kPeriod);
    settle(lost);
    expected = lost.values();
    one_push(lost, 3);
  }
  OneShard one(async_set(1), options());
  const auto position = parse<wire::Position>(one.join(0)[0]);
  ASSERT_TRUE(
      is(go_back(one, position.savepoints(position.savepoints_size() - 1)), FrameType::kPosition));
  EXPECT_EQ(one.values(), expected);
  one.send(0, FrameType::kReady, wire::Ready());
  one_push(one, 3);
  EXPECT_TRUE(is(one.finish(0, 0), FrameType::kPassFinished))
      << "a savepoint of this pass is whole";
}

}  // namespace
}  // namespace paddle::pserver
