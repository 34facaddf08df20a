// A Shard called directly: admission, refusals, and the end of the job.
#include "engine/pserver/shard.h"

#include <unistd.h>

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "engine/table/parameter_set.h"
#include "tests/support/saved_row.h"
#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

// Whatever a trainer may send, the answers fit into their frames.
TEST(ShardAnswers, FitIntoAFrameForAllTrainersAndAllTables) {
  constexpr std::uint32_t kTrainers = 4096;
  OneShard many(test::small_set("sgd", kTrainers));
  many.join(0);
  wire::LoadBegin begin;
  begin.set_step(parameter::kCounterMax);
  for (std::uint32_t i = 0; i < kTrainers; ++i) {
    begin.add_cursors(parameter::kCounterMax);
    begin.add_pass_batches(parameter::kCounterMax);
  }
  const auto out = many.send(0, FrameType::kLoadBegin, begin);
  ASSERT_TRUE(is(out, FrameType::kPosition));
  EXPECT_LE(out[0].frame.head.size(), kFrameHeadBytesMax);
  begin.set_cursors(7, parameter::kCounterMax + 1);
  expect_refused(many.send(0, FrameType::kLoadBegin, begin), wire::REFUSAL_PROTOCOL, "count over");
  begin.set_cursors(7, 0);
  begin.set_samples(~std::uint64_t{0});
  expect_refused(many.send(0, FrameType::kLoadBegin, begin), wire::REFUSAL_PROTOCOL, "count over");

  wire::ParameterSet tables = test::small_set("adagrad", 1);
  while (tables.parameters_size() < parameter::kParametersMax) {
    auto& table = *tables.add_parameters();
    table = tables.parameters(2);
    table.set_name("table-" + std::to_string(tables.parameters_size()));
  }
  OneShard one(tables, true);
  one.start();
  const auto finished = one.finish(0, 0);
  ASSERT_TRUE(is(finished, FrameType::kPassFinished));
  EXPECT_LE(finished[0].frame.head.size(), kFrameHeadBytesMax);
  *tables.add_parameters() = tables.parameters(2);
  OneShard over(tables, true);
  expect_refused(over.join_with(0, tables), wire::REFUSAL_PARAMETERS,
                 "2049 parameters; the limit is 2048");
}

Bytes bytes_of(const wire::PassOrigins& origins) {
  Bytes tail;
  append_bytes(tail, std::span<const char>(origins.SerializeAsString()));
  return tail;
}

TEST(ShardOrigins, AreKeptForEachTrainerAsTheSnapshotHadThem) {
  OneShard one(test::small_set("sgd", 2));
  one.join(0);
  one.join(1);
  wire::PassOrigins origins;
  origins.set_pass(3);
  for (const std::uint64_t number : {7, 8}) {
    origins.add_batches(number);
    origins.add_records(10 * number);
    origins.add_data(100 * number);
  }
  wire::LoadBegin begin;
  begin.set_passes_finished(3);
  for (const std::uint64_t batches : origins.batches()) begin.add_pass_batches(batches);
  EXPECT_FALSE(parse<wire::Position>(one.send(0, FrameType::kLoadBegin, begin)[0]).has_origin());
  const auto out = one.send(0, FrameType::kLoadBegin, begin, bytes_of(origins));
  EXPECT_EQ(parse<wire::Position>(out[0]).origin().records(), 70U);
  const auto ready = one.send(0, FrameType::kReady, wire::Ready());
  ASSERT_FALSE(ready.empty());
  one.incarnation = 1;
  const auto position = parse<wire::Position>(one.join(1)[0]);
  EXPECT_EQ(position.origin().pass(), 3U);
  EXPECT_EQ(position.origin().batches(), 8U);
  EXPECT_EQ(position.origin().records(), 80U);
  EXPECT_EQ(position.origin().data(), 800U);
}

TEST(ShardOrigins, OfAnotherNumberOfTrainersAreRefused) {
  OneShard one(test::small_set("sgd", 2));
  one.join(0);
  wire::PassOrigins origins;
  origins.add_batches(1);
  origins.add_records(1);
  origins.add_data(1);
  expect_refused(one.send(0, FrameType::kLoadBegin, wire::LoadBegin(), bytes_of(origins)),
                 wire::REFUSAL_PROTOCOL, "origins of 1 trainers");
  expect_refused(one.send(0, FrameType::kLoadBegin, wire::LoadBegin(), Bytes(3, std::byte{255})),
                 wire::REFUSAL_PROTOCOL, "not valid pass origins");
  origins.add_batches(parameter::kCounterMax + 1);
  origins.add_records(1);
  origins.add_data(1);
  expect_refused(one.send(0, FrameType::kLoadBegin, wire::LoadBegin(), bytes_of(origins)),
                 wire::REFUSAL_PROTOCOL, "count over");
}

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(ShardJoin, TablesTakeNoMemoryForTheirWidthBeforeTheyHaveRows) {
  wire::ParameterSet wide = test::small_set("adam", 1);
  wide.mutable_parameters(2)->set_dims(1, parameter::kRowWidthMax);
  wide.mutable_parameters(2)->mutable_table()->set_entry_count(2);
  while (wide.parameters_size() < 100) {
    auto& table = *wide.add_parameters();
    table = wide.parameters(2);
    table.set_name("table-" + std::to_string(wide.parameters_size()));
  }
  const std::uint64_t before = resident_bytes();
  OneShard one(wide, true, {}, 256U << 20U);
  EXPECT_TRUE(is(one.join_with(0, wide), FrameType::kPosition));
  EXPECT_LT(resident_bytes() - before, 64U << 20U);
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
  refuse([](auto& s) { s.set_num_trainers(3); },
         "num_gradient_servers is 2 here, but trainer 1 has 3");
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

TEST(ShardJoin, LiveDuplicateAndOlderIncarnationAreRefusedANewerOneTakesOver) {
  OneShard one(test::small_set("sgd", 2));
  one.incarnation = 3;
  one.start();
  one.peer_base = 200;
  expect_refused(one.join(1), wire::REFUSAL_DUPLICATE_TRAINER, "trainer_id 1");
  one.incarnation = 2;
  expect_refused(one.join(1), wire::REFUSAL_STALE_INCARNATION, "incarnation 3 has already joined");
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
                 "this is sparse port 0 of the job, but trainer 0 expects sparse port 1");
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

TEST(ShardValues, RowsOverTheLimitAreRefusedFromAPushAndFromASnapshot) {
  OneShard one(test::small_set("sgd", 1), true, {}, 2 * (3 * sizeof(float) + 24));
  one.join(0);
  const auto put = [&](std::vector<std::uint64_t> ids) {
    wire::PutRows message;
    message.set_parameter(2);
    message.set_count(ids.size());
    std::vector<test::SavedRow> rows;
    for (const std::uint64_t id : ids) rows.push_back({.id = id, .value = {0, 0, 0}, .state = {}});
    return one.send(0, FrameType::kPutRows, message, test::encoded(rows));
  };
  expect_refused(put({1, 2, 3}), wire::REFUSAL_LIMIT, "table 'words' would exceed the limit");
  EXPECT_EQ(one.shard.sparse(2)->rows(), 0U);
  EXPECT_TRUE(is(put({1}), FrameType::kDone));
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(is(one.push_row(0, 1, 8, 1), FrameType::kPushed));
  one.step = 1;
  expect_refused(one.push_row(0, 2, 9, 1), wire::REFUSAL_LIMIT, "would exceed the limit");
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

TEST(ShardValues, InitialValuesThatAreNotFiniteAreRefused) {
  OneShard one(test::small_set("sgd", 1));
  one.join(0);
  const auto put = [&](float value, std::uint64_t updates) {
    wire::PutDense message;
    message.set_count(2);
    message.set_update_count(updates);
    const std::vector<float> values{1, value};
    Bytes tail;
    append_bytes(tail, std::span<const float>(values));
    return one.send(0, FrameType::kPutDense, message, std::move(tail));
  };
  expect_refused(put(std::nanf(""), 0), wire::REFUSAL_NOT_FINITE, "dense values");
  expect_refused(put(INFINITY, 0), wire::REFUSAL_NOT_FINITE, "dense values");
  expect_refused(put(1, parameter::kCounterMax + 1), wire::REFUSAL_PROTOCOL, "updates");
  EXPECT_TRUE(is(put(1, parameter::kCounterMax), FrameType::kDone));
}

TEST(ShardValues, ACopyingTrainerExportsRowsButNoChanges) {
  auto set = test::small_set("sgd", 2, 1, 1);
  set.set_delta_snapshots(true);
  OneShard one(set, true);
  one.start();
  wire::ExportRows ask;
  ask.set_parameter(2);
  ask.set_rows_max(10);
  EXPECT_TRUE(is(one.send(1, FrameType::kExportRows, ask), FrameType::kExportedRows));
  ask.set_mode(wire::EXPORT_BASE);
  EXPECT_TRUE(is(one.send(1, FrameType::kExportRows, ask), FrameType::kRefused));
  EXPECT_TRUE(is(one.send(0, FrameType::kExportRows, ask), FrameType::kExportedRows));
}

TEST(ShardValues, RowsThatAreNotFiniteOrComeTwiceAreRefused) {
  OneShard one(test::small_set("adagrad", 1), true);
  one.join(0);
  const auto put = [&](std::uint64_t id, float value, float state) {
    wire::PutRows message;
    message.set_parameter(2);
    message.set_count(1);
    message.set_state_width(1);
    const std::vector<std::uint64_t> numbers{id, 0};
    const std::vector<float> floats{1, 2, value, 3, 4, state};
    Bytes tail;
    append_bytes(tail, std::span<const std::uint64_t>(numbers));
    append_bytes(tail, std::span<const float>(floats));
    return one.send(0, FrameType::kPutRows, message, std::move(tail));
  };
  expect_refused(put(7, std::nanf(""), 1), wire::REFUSAL_NOT_FINITE, "rows of 'words'");
  expect_refused(put(7, 1, INFINITY), wire::REFUSAL_NOT_FINITE, "rows of 'words'");
  EXPECT_TRUE(is(put(7, 1, 1), FrameType::kDone));
  EXPECT_TRUE(is(put(7, 1, 1), FrameType::kDone)) << "as after a connection that was lost";
  expect_refused(put(7, 2, 1), wire::REFUSAL_PROTOCOL, "row 7 of 'words' was sent twice");
  expect_refused(put(7, 1, 2), wire::REFUSAL_PROTOCOL, "row 7 of 'words' was sent twice");
  EXPECT_TRUE(is(put(8, 2, 2), FrameType::kDone));
}

TEST(ShardValues, RowsOfAnotherLengthAreRefusedByName) {
  OneShard one(test::small_set("adagrad", 1), true);
  one.join(0);
  const std::vector<test::SavedRow> rows{{.id = 7, .value = {1, 2, 3}, .state = {4, 5, 6}},
                                         {.id = 8, .value = {1, 2, 3}, .state = {4, 5, 6}}};
  const auto put = [&](std::uint64_t count, std::uint32_t state_width, std::size_t bytes) {
    wire::PutRows message;
    message.set_parameter(2);
    message.set_count(count);
    message.set_state_width(state_width);
    Bytes tail = test::encoded(rows);
    tail.resize(bytes);
    return one.send(0, FrameType::kPutRows, message, std::move(tail));
  };
  expect_refused(put(2, 1, 79), wire::REFUSAL_PROTOCOL,
                 "rows of 'words': expected 2 rows of 40 bytes, found 79 bytes");
  expect_refused(put(1, 1, 80), wire::REFUSAL_PROTOCOL, "expected 1 rows of 40 bytes, found 80");
  expect_refused(put(1ULL << 61U, 1, 0), wire::REFUSAL_PROTOCOL, "found 0 bytes");
  expect_refused(put(2, 2, 80), wire::REFUSAL_PROTOCOL,
                 "rows of 'words' with state width 2, here 1");
  EXPECT_EQ(one.shard.sparse(2)->rows(), 0U);
  EXPECT_TRUE(is(put(2, 1, 80), FrameType::kDone));
  EXPECT_EQ(one.shard.sparse(2)->rows(), 2U);
}

// The rows that a shard exports are those that another loads, and a file of a snapshot has.
TEST(ShardValues, ExportedRowsAreTheBytesThatWerePut) {
  OneShard one(test::small_set("adagrad", 1), true);
  one.join(0);
  const Bytes rows = test::encoded({{.id = 7, .value = {1, 2, 3}, .state = {4, 5, 6}}});
  wire::PutRows put;
  put.set_parameter(2);
  put.set_count(1);
  put.set_state_width(1);
  EXPECT_TRUE(is(one.send(0, FrameType::kPutRows, put, rows), FrameType::kDone));
  one.send(0, FrameType::kReady, wire::Ready());
  wire::ExportRows ask;
  ask.set_parameter(2);
  ask.set_rows_max(10);
  const auto out = one.send(0, FrameType::kExportRows, ask);
  ASSERT_TRUE(is(out, FrameType::kExportedRows));
  EXPECT_EQ(out[0].frame.tail, rows);
}

// Frames of these types had rows column by column.
TEST(ShardFrames, RowsOfEarlierReleasesAreRefused) {
  OneShard one(test::small_set("sgd", 1), true);
  one.join(0);
  wire::PutRows put;
  put.set_parameter(2);
  expect_refused(one.send(0, FrameType{19}, put), wire::REFUSAL_PROTOCOL,
                 "frame type 19 is not a request");
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
                    .server_generation = 5};
    change(frame);
    out.clear();
    one.shard.on_frame(one.now, 100, std::move(frame), out);
  };
  send([](Frame& f) { f.header.job_tag = 12; });
  expect_refused(out, wire::REFUSAL_WRONG_JOB, "000000000000000b");
  send([](Frame& f) { f.header.server_generation = 4; });
  expect_refused(out, wire::REFUSAL_STALE_GENERATION, "generation 4");
  send([](Frame& f) { f.header.sender.index = 9; });
  expect_refused(out, wire::REFUSAL_PROTOCOL, "has not joined");
  send([](Frame& f) { f.head = "\xff\xff\xff"; });
  expect_refused(out, wire::REFUSAL_PROTOCOL, "malformed head");
  send([](Frame& f) { f.header.type = 200; });
  expect_refused(out, wire::REFUSAL_PROTOCOL, "type 200");
}

TEST(ShardEnd, FinishedWhenAllTrainersAreGone) {
  OneShard one(test::small_set("sgd", 2));
  EXPECT_FALSE(one.shard.finished());
  one.start();
  one.send(0, FrameType::kLeave, wire::Leave());
  EXPECT_FALSE(one.shard.finished());
  one.send(1, FrameType::kLeave, wire::Leave());
  EXPECT_TRUE(one.shard.finished());
}

TEST(ShardEnd, FinishedWhenAFailedJobHasNobodyLeft) {
  OneShard one(test::small_set("sgd", 3));
  one.join(0);
  one.join(1);  // trainer 2 never comes
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 101, out);
  EXPECT_FALSE(one.shard.finished());
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_TRUE(one.shard.finished());
}

TEST(ShardEnd, NotFinishedWhileALostTrainerMayComeBack) {
  OneShard one(test::small_set("sgd", 1), false, std::chrono::seconds(30));
  one.start();
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, 100, out);
  EXPECT_FALSE(one.shard.finished());
  one.now += std::chrono::seconds(31);
  one.shard.on_tick(one.now, out);
  EXPECT_TRUE(one.shard.finished());
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
      expect_refused(out, wire::REFUSAL_LIMIT, "exceed the limit of this port");
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
