// Readers of a shard: what they read, and that they change nothing.
#include <cstring>

#include "tests/unit/engine/pserver/savepoints_fixture.h"

namespace paddle::pserver {
namespace {

constexpr net::PeerId kReaderPeer = 900;

Frame reader_frame(FrameType type, std::string head, Bytes tail = {}) {
  Frame frame;
  frame.header.type = static_cast<std::uint8_t>(type);
  frame.header.job_tag = 11;
  frame.header.sender = {Role::kReader, 0};
  frame.head = std::move(head);
  frame.tail = std::move(tail);
  return frame;
}

std::vector<net::Outgoing> send(OneShard& one, Frame frame) {
  std::vector<net::Outgoing> out;
  one.shard.on_frame(one.now, kReaderPeer, std::move(frame), out);
  net::keep_views(out);
  return out;
}

std::vector<net::Outgoing> describe(OneShard& one) {
  wire::Describe message;
  message.set_request(1);
  return send(one, reader_frame(FrameType::kDescribe, message.SerializeAsString()));
}

Frame pull_frame(const std::vector<std::uint64_t>& ids, bool to_test = true,
                 std::uint32_t parameter = test::kTable) {
  wire::PullRows message;
  message.set_request(2);
  message.set_to_test(to_test);
  message.add_segments()->set_parameter(parameter);
  message.mutable_segments(0)->set_count(ids.size());
  Bytes tail;
  append_bytes(tail, std::span<const std::uint64_t>(ids));
  return reader_frame(FrameType::kPullRows, message.SerializeAsString(), std::move(tail));
}

std::vector<float> floats_of(const net::Outgoing& outgoing) {
  const Bytes& tail = outgoing.frame.tail;
  std::vector<float> values(tail.size() / sizeof(float));
  std::memcpy(values.data(), tail.data(), values.size() * sizeof(float));
  return values;
}

std::vector<float> pull(OneShard& one, const std::vector<std::uint64_t>& ids, bool to_test = true) {
  const auto out = send(one, pull_frame(ids, to_test));
  EXPECT_TRUE(is(out, FrameType::kRowValues));
  if (out.size() != 1) return {};
  EXPECT_EQ(out[0].to, kReaderPeer);
  EXPECT_FALSE(out[0].close_after);
  EXPECT_EQ(parse<wire::RowValues>(out[0]).request(), 2U);
  return floats_of(out[0]);
}

// Everything that a shard sends to anybody, as one text.
std::string text_of(const std::vector<net::Outgoing>& out) {
  std::string text;
  for (const net::Outgoing& one : out) {
    const FrameHeaderBytes header = encode_header(one.frame);
    text.append(reinterpret_cast<const char*>(header.data()), header.size());
    text += one.frame.head;
    text.append(reinterpret_cast<const char*>(one.frame.tail.data()), one.frame.tail.size());
    text += fmt::format("to {} {}\n", one.to, one.close_after);
  }
  return text;
}

TEST(ShardReader, ReceivesTheParametersAndTheNumberOfTheShard) {
  const auto set = test::small_set("sgd", 1, 1, 4);
  OneShard one(set, {.index = 3, .is_sparse = true});
  one.expected_shard = 3;
  one.start();
  one.push_row(0, 1, 5, 1.0F);
  const auto out = describe(one);
  ASSERT_TRUE(is(out, FrameType::kShardDescription));
  const auto description = parse<wire::ShardDescription>(out[0]);
  EXPECT_EQ(description.request(), 1U);
  EXPECT_EQ(description.shard(), 3U);
  EXPECT_TRUE(description.is_sparse());
  EXPECT_EQ(description.step(), 1U);
  wire::ParameterSet received;
  const Bytes& tail = out[0].frame.tail;
  ASSERT_TRUE(received.ParseFromArray(tail.data(), static_cast<int>(tail.size())));
  EXPECT_EQ(received.SerializeAsString(), set.SerializeAsString());
}

TEST(ShardReader, IsAnsweredAtOnceInTheMiddleOfARound) {
  OneShard one(test::small_set("sgd", 2), true);
  one.start();
  one.push_row(0, 1, 5, 1.0F);
  one.push_row(1, 1, 5, 1.0F);
  const std::vector<float> first = pull(one, {5});
  EXPECT_EQ(one.shard.step(), 1U);
  one.step = 1;
  one.push_row(0, 2, 5, 1.0F);  // trainer 1 has yet to push
  EXPECT_EQ(pull(one, {5}), first);
  one.push_row(1, 2, 5, 1.0F);
  const std::vector<float> second = pull(one, {5});
  ASSERT_EQ(second.size(), 3U);
  EXPECT_NE(second, first);
  std::vector<float> expected(3);
  one.shard.sparse(test::kTable)->read(std::vector<std::uint64_t>{5}, expected);
  EXPECT_EQ(second, expected);
}

TEST(ShardReader, AbsentRowsReadAsInTestsAndAreNotCreated) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(test::kTable)->set_initial_mean(0.25F);
  OneShard one(set, true);
  one.start();
  one.push_row(0, 1, 5, 1.0F);
  EXPECT_EQ(pull(one, {7, 8}), std::vector<float>(6, 0.25F));
  // As training reads them: the values with which their rows would begin.
  const std::vector<float> drawn = pull(one, {7}, false);
  std::vector<float> expected(3);
  one.shard.sparse(test::kTable)->read(std::vector<std::uint64_t>{7}, expected);
  EXPECT_EQ(drawn, expected);
  EXPECT_NE(drawn, std::vector<float>(3, 0.25F));
  EXPECT_EQ(one.shard.sparse(test::kTable)->rows(), 1U);
}

TEST(ShardReader, ReadsTheAveragesThatTheJobKeeps) {
  auto set = test::small_set("sgd", 1);
  set.mutable_optimizer()->mutable_average()->set_window(0.5F);
  OneShard one(set, true);
  one.start();
  for (const std::uint64_t sequence : {1, 2, 3}) {
    one.step = sequence - 1;
    one.push_row(0, sequence, 5, static_cast<float>(sequence));
  }
  Frame frame = pull_frame({5});
  wire::PullRows message;
  ASSERT_TRUE(message.ParseFromString(frame.head));
  message.set_averages(true);
  frame.head = message.SerializeAsString();
  const auto out = send(one, std::move(frame));
  ASSERT_TRUE(is(out, FrameType::kRowValues));
  std::vector<float> expected(3);
  one.shard.sparse(test::kTable)->read_averages(std::vector<std::uint64_t>{5}, expected);
  EXPECT_EQ(floats_of(out[0]), expected);
  EXPECT_NE(expected, pull(one, {5}));
}

// Runs a job of two trainers, one of which is lost and returns, and gives what they received.
std::string run_job(bool has_reader) {
  OneShard one(test::small_set("adagrad", 2), true, std::chrono::seconds(30));
  std::string received;
  const auto read = [&] {
    if (!has_reader) return;
    describe(one);
    send(one, pull_frame({1, 5, 9}));
    send(one, pull_frame({9, 1}));                                // refused
    send(one, reader_frame(FrameType::kLeave, std::string()));    // refused
    send(one, reader_frame(FrameType::kAbandon, std::string()));  // refused
    std::vector<net::Outgoing> out;
    one.shard.on_disconnect(one.now, kReaderPeer, out);
    EXPECT_TRUE(out.empty());
  };
  const auto take = [&](const std::vector<net::Outgoing>& out) {
    received += text_of(out);
    read();
  };
  const auto tick = [&] {
    std::vector<net::Outgoing> out;
    one.now += std::chrono::seconds(2);
    one.shard.on_tick(one.now, out);
    take(out);
  };
  read();
  take(one.join(0));
  take(one.join(1));
  take(one.send(0, FrameType::kReady, wire::Ready()));
  for (std::uint64_t round = 0; round < 4; ++round) {
    one.step = round;
    take(one.push_row(0, round + 1, 5, 1.0F));
    tick();  // trainer 0 receives how far the shard is
    take(one.push_row(1, round + 1, 9, 2.0F));
  }
  std::vector<net::Outgoing> out;
  one.shard.on_disconnect(one.now, one.peer_base + 1, out);
  take(out);
  tick();
  one.incarnation = 1;
  take(one.join(1));
  take(one.finish(1, 0));
  one.incarnation = 0;
  take(one.finish(0, 0));
  take(one.send(0, FrameType::kLeave, wire::Leave()));
  EXPECT_FALSE(one.shard.finished());
  one.incarnation = 1;
  take(one.send(1, FrameType::kLeave, wire::Leave()));
  EXPECT_TRUE(one.shard.finished());
  return received;
}

TEST(ShardReader, TrainersReceiveTheSameBytesWithAndWithoutAReader) {
  const std::string alone = run_job(false);
  EXPECT_GT(alone.size(), 1000U);
  EXPECT_EQ(alone, run_job(true));
}

TEST(ShardReader, IsRefusedAnyOtherRequestAndClosed) {
  OneShard one(test::small_set("sgd", 1), true);
  one.start();
  one.push_row(0, 1, 5, 1.0F);
  const std::vector<float> before = pull(one, {5});
  for (int type = 16; type < 256; ++type) {
    if (type == static_cast<int>(FrameType::kPullRows)) continue;
    if (type == static_cast<int>(FrameType::kDescribe)) continue;
    const auto out = send(one, reader_frame(static_cast<FrameType>(type), std::string()));
    expect_refused(out, wire::REFUSAL_PROTOCOL, "is not a request of a reader");
    EXPECT_TRUE(out[0].close_after);
  }
  EXPECT_EQ(pull(one, {5}), before);
  EXPECT_EQ(one.shard.failure(), "");
  EXPECT_FALSE(one.shard.finished());
  one.step = 1;
  EXPECT_TRUE(is(one.push_row(0, 2, 5, 1.0F), FrameType::kPushed));
}

TEST(ShardReader, OtherFieldsOfItsHeadersAreZero) {
  OneShard one(test::small_set("sgd", 1), true);
  one.start();
  const std::vector<void (*)(FrameHeader&)> changes{
      [](FrameHeader& header) { header.lane = 1; },
      [](FrameHeader& header) { header.sequence = 1; },
      [](FrameHeader& header) { header.step = 1; },
      [](FrameHeader& header) { header.server_generation = 1; },
      [](FrameHeader& header) { header.flags = 1; },
      [](FrameHeader& header) { header.sender.index = 1; },
  };
  for (const auto& change : changes) {
    Frame frame = pull_frame({5});
    change(frame.header);
    const auto out = send(one, std::move(frame));
    expect_refused(out, wire::REFUSAL_PROTOCOL, "a field of the header is not 0");
    EXPECT_TRUE(out[0].close_after);
  }
  Frame frame = pull_frame({5});
  frame.header.incarnation = 3;  // a part of its identity
  EXPECT_TRUE(is(send(one, std::move(frame)), FrameType::kRowValues));
}

TEST(ShardReader, ATrainerCannotDescribe) {
  OneShard one(test::small_set("sgd", 1), true);
  one.start();
  expect_refused(one.send(0, FrameType::kDescribe, wire::Describe()), wire::REFUSAL_PROTOCOL,
                 "is not a request");
}

TEST(ShardReader, BeforeThereAreValuesItMayAskAgain) {
  OneShard one(test::small_set("sgd", 1), true);
  for (int joined = 0; joined < 2; ++joined) {
    const auto out = describe(one);
    expect_refused(out, wire::REFUSAL_NOT_READY, "no values to read yet");
    EXPECT_EQ(parse<wire::Refused>(out[0]).request(), 1U);
    EXPECT_FALSE(out[0].close_after);
    expect_refused(send(one, pull_frame({5})), wire::REFUSAL_NOT_READY, "no values to read yet");
    if (joined == 0) one.join(0);
  }
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_TRUE(is(describe(one), FrameType::kShardDescription));
}

TEST(ShardReader, HostilePullsAreRefusedAndClosed) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(test::kTable)->set_dims(1, 1024);
  OneShard one(set, true);
  one.start();
  const auto expect_closed = [&](Frame frame, wire::RefusalCode code, const std::string& text) {
    const auto out = send(one, std::move(frame));
    expect_refused(out, code, text);
    ASSERT_FALSE(out.empty());
    EXPECT_TRUE(out[0].close_after);
  };
  expect_closed(pull_frame({9, 5}), wire::REFUSAL_PROTOCOL, "not in ascending order");
  expect_closed(pull_frame({5, 5}), wire::REFUSAL_PROTOCOL, "not in ascending order");
  expect_closed(pull_frame({5}, true, 0), wire::REFUSAL_PROTOCOL, "not a sparse table");
  expect_closed(pull_frame({5}, true, 4'000'000'000U), wire::REFUSAL_PROTOCOL,
                "not a sparse table");
  Frame cut = pull_frame({5, 9});
  cut.tail.resize(12);
  expect_closed(std::move(cut), wire::REFUSAL_PROTOCOL, "do not fit");
  Frame extra = pull_frame({5});
  extra.tail.resize(24);
  expect_closed(std::move(extra), wire::REFUSAL_PROTOCOL, "16 extra bytes");
  expect_closed(reader_frame(FrameType::kPullRows, "\xff\xff\xff"), wire::REFUSAL_PROTOCOL,
                "malformed head");
  expect_closed(reader_frame(FrameType::kDescribe, "\xff\xff\xff"), wire::REFUSAL_PROTOCOL,
                "malformed head");
  Frame averages = pull_frame({5});
  wire::PullRows message;
  ASSERT_TRUE(message.ParseFromString(averages.head));
  message.set_averages(true);
  averages.head = message.SerializeAsString();
  expect_closed(std::move(averages), wire::REFUSAL_PROTOCOL, "does not keep averages");
  Frame stranger = pull_frame({5});
  stranger.header.job_tag = 12;
  expect_closed(std::move(stranger), wire::REFUSAL_WRONG_JOB, "runs job");

  // 4 KiB for each row: 256 rows have 1 MiB.
  std::vector<std::uint64_t> ids(257);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  expect_closed(pull_frame(ids), wire::REFUSAL_LIMIT, "exceeds the size");
  ids.pop_back();
  EXPECT_EQ(pull(one, ids).size(), 256U * 1024);
  EXPECT_EQ(one.shard.sparse(test::kTable)->rows(), 0U);
}

TEST(ShardReader, ARowThatIsLargerThanTheLimitIsReadAlone) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(test::kTable)->set_dims(1, 512 * 1024);
  OneShard one(set, true);
  one.start();
  EXPECT_EQ(pull(one, {5}).size(), 512U * 1024);
  expect_refused(send(one, pull_frame({5, 6})), wire::REFUSAL_LIMIT, "exceeds the size");
}

TEST(ShardReader, ADensePortDescribesItselfAndHasNoRows) {
  OneShard one(test::small_set("sgd", 1));
  one.start();
  const auto out = describe(one);
  ASSERT_TRUE(is(out, FrameType::kShardDescription));
  EXPECT_FALSE(parse<wire::ShardDescription>(out[0]).is_sparse());
  expect_refused(send(one, pull_frame({5})), wire::REFUSAL_PROTOCOL, "not a sparse table");
}

using ReaderGoBack = SavepointsFixture;

TEST_F(ReaderGoBack, AfterARollbackItReadsTheRestoredValues) {
  OneShard one(savepoint_set(2), options(true));
  one.start();
  settle(one);
  savepoint_round(one, 1, 1);
  const std::vector<float> saved = pull(one, {4, 5});
  round(one, 2, 1000);
  EXPECT_NE(pull(one, {4, 5}), saved);
  const wire::Position position = join_again(one);
  ASSERT_TRUE(is(go_back(one, savepoints_of(position).back()), FrameType::kPosition));
  expect_refused(send(one, pull_frame({4, 5})), wire::REFUSAL_NOT_READY, "no values");
  one.send(0, FrameType::kReady, wire::Ready());
  EXPECT_EQ(pull(one, {4, 5}), saved);
}

}  // namespace
}  // namespace paddle::pserver
