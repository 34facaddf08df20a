// The course of a job: snapshots, resumption, and trainers that are lost and come back.
#include "engine/sidecar/training.h"

#include <atomic>
#include <filesystem>
#include <tuple>

#include "engine/net/identity.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/snapshot/reader.h"
#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/sidecar/program.h"

namespace paddle::sidecar {
namespace {

const std::string kFinish = R"({"op":"finish_pass"})";
const std::string kSave = R"({"op":"save"})";
const std::string kLeave = R"({"op":"leave"})";

// Rows on both pservers.
const std::vector<std::uint64_t> kMany{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                       10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

void expect_ok(const std::string& answer, const std::string& part = "") {
  EXPECT_TRUE(says(answer, R"("ok":true)") && says(answer, part)) << answer;
}

void train(Program& program, float gradient) {
  const std::uint32_t pulled = program.pull("item", {1, 2}, 1);
  expect_ok(program.push("item", pulled, {gradient, 2 * gradient}, 3));
}

std::vector<float> rows(Program& program) {
  program.pull("item", {1, 2}, 1, true);
  return program.values;
}

void add_state(Program& program, const std::string& state) {
  std::ranges::copy(state, program.at<char>(64));
  expect_ok(
      program.call(fmt::format(R"({{"op":"state","offset":0,"data":[64,{}]}})", state.size())));
}

// Snapshots of a job without pservers.

class Saving : public testing::Test {
 protected:
  TrainingOptions resumed() const {
    TrainingOptions options = alone(folder_.path());
    options.trainer.resume = true;
    return options;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Saving, BetweenPassesAndWithinThemKeepsTheStateOfTheProgram) {
  std::vector<float> values;
  {
    Program program(alone(folder_.path()));
    expect_ok(program.call(hello()), R"("resumed":false)");
    train(program, 1);
    expect_ok(program.call(kFinish));
    add_state(program, "after a pass");
    expect_ok(program.call(kSave), folder_ / "pass-00000\",\"within_pass\":false");
    train(program, 2);
    train(program, 3);
    add_state(program, "after two batches");
    expect_ok(program.call(kSave), folder_ / "pass-00001-000002\",\"within_pass\":true");
    values = rows(program);
    train(program, 4);  // training may go on
  }
  const auto snapshot = snapshot::SnapshotReader::open(folder_ / "pass-00000");
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(**snapshot->read_model_file("model/state"), "after a pass");
  EXPECT_TRUE(says(**snapshot->read_model_file("model/job.toml"), "name = \"item\""));
  Program program(resumed());
  expect_ok(program.call(hello()),
            R"("pass":1,"batch":2,"samples":9,"resumed":true,"returned":false,"state_bytes":17)");
  expect_ok(program.call(R"({"op":"read_state","offset":6,"into":[0,4]})"), R"("bytes":4)");
  EXPECT_EQ(std::string(program.at<char>(0), 4), "two ");
  expect_ok(program.call(R"({"op":"read_state","offset":10,"into":[0,100]})"), R"("bytes":7)");
  expect_ok(program.call(R"({"op":"read_state","offset":17,"into":[0,100]})"), R"("bytes":0)");
  EXPECT_TRUE(says(program.call(R"({"op":"read_state","offset":18,"into":[0,100]})"), "usage"));
  EXPECT_EQ(rows(program), values);
  train(program, 4);
  EXPECT_TRUE(says(program.call(R"({"op":"read_state","offset":0,"into":[0,1]})"), "usage"))
      << "its memory is free again";
  expect_ok(program.call(kFinish), R"("pass":2)");
}

TEST_F(Saving, WithoutAStateWritesNone) {
  Program program(alone(folder_.path()));
  expect_ok(program.call(hello()));
  train(program, 1);
  add_state(program, "old");
  expect_ok(program.call(kFinish));
  expect_ok(program.call(kSave));
  expect_ok(program.call(kFinish));
  expect_ok(program.call(kSave));
  const auto snapshot = snapshot::SnapshotReader::open(folder_ / "pass-00001");
  ASSERT_TRUE(snapshot);
  EXPECT_FALSE(*snapshot->read_model_file("model/state"));
}

TEST_F(Saving, WithoutAFolderSavesNothing) {
  Program program(alone());
  expect_ok(program.call(hello()));
  train(program, 1);
  expect_ok(program.call(kSave), R"("path":"","within_pass":true)");
  expect_ok(program.call(kFinish));
  expect_ok(program.call(kSave), R"("path":"","within_pass":false)");
}

TEST_F(Saving, FailsWithoutEndingTheJob) {
  Program program(alone(folder_.path()));
  expect_ok(program.call(hello()));
  train(program, 1);
  expect_ok(program.call(kFinish));
  folder_.write("pass-00000", "a file");
  EXPECT_TRUE(says(program.call(kSave), "exists and is not a snapshot"));
  train(program, 1);
  expect_ok(program.call(kFinish));
  expect_ok(program.call(kSave), "pass-00001");
}

TEST_F(Saving, KeepsTheNewestSnapshotsAndSavesDeltas) {
  TrainingOptions options = alone(folder_.path());
  options.trainer.overrides = {"train.full_snapshot_period=3", "train.snapshots_kept=1"};
  {
    Program program(std::move(options));
    expect_ok(program.call(hello()));
    for (int pass = 0; pass < 3; ++pass) {
      train(program, 1);
      expect_ok(program.call(kSave));  // its copy is no base of a delta
      train(program, 1);
      expect_ok(program.call(kFinish));
      expect_ok(program.call(kSave));
    }
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"pass-00000", "pass-00002"}));
  EXPECT_TRUE(snapshot::SnapshotReader::open(folder_ / "pass-00002")->info().base);
  Program program(resumed());
  expect_ok(program.call(hello()), R"("pass":3,"batch":0)");
}

TEST_F(Saving, AStateBeginsAtItsFirstByte) {
  Program program(alone(folder_.path()));
  expect_ok(program.call(hello()));
  EXPECT_TRUE(says(program.call(R"({"op":"state","offset":1,"data":[0,1]})"), "byte 1 follows"));
  expect_ok(program.call(R"({"op":"state","offset":0,"data":[0,10]})"));
  EXPECT_TRUE(says(program.call(R"({"op":"state","offset":9,"data":[0,1]})"), "follows byte 10"));
  expect_ok(program.call(R"({"op":"state","offset":10,"data":[0,5]})"));
  expect_ok(program.call(R"({"op":"state","offset":0,"data":[0,3]})"));
}

TEST_F(Saving, AnInitialModelHasItsStateToo) {
  {
    Program program(alone(folder_.path()));
    expect_ok(program.call(hello()));
    train(program, 1);
    expect_ok(program.call(kFinish));
    add_state(program, "model");
    expect_ok(program.call(kSave));
  }
  TrainingOptions options = alone();
  options.trainer.init_model_path = folder_ / "pass-00000";
  Program program(std::move(options));
  expect_ok(program.call(hello()), R"("resumed":false,"returned":false,"state_bytes":5)");
  expect_ok(program.call(R"({"op":"read_state","offset":0,"into":[0,100]})"), R"("bytes":5)");
}

TEST_F(Saving, ASecondTrainingNeedsAWord) {
  {
    Program program(alone(folder_.path()));
    expect_ok(program.call(hello()));
    train(program, 1);
    expect_ok(program.call(kFinish));
    expect_ok(program.call(kSave));
  }
  Program program(alone(folder_.path()));
  EXPECT_TRUE(says(program.call(hello()), "has snapshots of an earlier training"));
}

// A trainer's files.

TEST_F(Saving, SharesFilesByTheirNumbers) {
  for (const char* const name : {"data/part-0.csv", "data/part-1.csv"}) folder_.write(name, "");
  TrainingOptions options = alone();
  options.trainer.config = folder_.write("job.toml", "[data]\ntrain = \"data/*.csv\"\n");
  Program program(std::move(options));
  expect_ok(program.call(hello()));
  const std::string both = program.call(R"({"op":"share","pattern":""})");
  EXPECT_TRUE(says(both, "part-0.csv") && says(both, "part-1.csv")) << both;
  const std::string one = program.call(R"({"op":"share","pattern":"data/*-1.csv"})");
  EXPECT_TRUE(!says(one, "part-0.csv") && says(one, "part-1.csv")) << one;
}

// Trainers that are lost and come back to pservers on loopback ports.

// A shard that answers no pull of rows while it is silent.
class FrozenShard final : public net::FrameHandler {
 public:
  explicit FrozenShard(net::FrameHandler& shard) : shard_(shard) {}
  void on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                std::vector<net::Outgoing>& out) override {
    const bool pulls = frame.header.type == static_cast<std::uint8_t>(FrameType::kPullRows);
    if (!pulls || !is_silent) shard_.on_frame(now, from, std::move(frame), out);
  }
  void on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) override {
    shard_.on_disconnect(now, from, out);
  }
  void on_tick(TimePoint now, std::vector<net::Outgoing>& out) override {
    shard_.on_tick(now, out);
  }

  std::atomic<bool> is_silent = false;

 private:
  net::FrameHandler& shard_;
};

class Pserver {
 public:
  Pserver(std::uint32_t index, std::uint32_t trainers)
      : index_(index),
        shard_({.make_policy = strategy::make_update_policy,
                .index = index,
                .is_sparse = true,
                .num_gradient_servers = trainers,
                .job_tag = net::job_tag_of("job"),
                .server_generation = 1,
                .lost_trainer_grace = std::chrono::seconds(100)}) {
    start();
  }
  ~Pserver() { stop(); }
  // The parameters stay while it is stopped.
  void start() {
    auto server = net::TcpServer::listen({.endpoint = {"127.0.0.1", port_},
                                          .keys = *net::job_keys("", {}),
                                          .self = {Role::kPserver, index_},
                                          .job_tag = net::job_tag_of("job"),
                                          .server_generation = 1},
                                         port_of_shard_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  void answer_no_pull() { port_of_shard_.is_silent = true; }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  std::uint32_t index_;
  std::uint16_t port_ = 0;
  pserver::Shard shard_;
  FrozenShard port_of_shard_{shard_};
  std::unique_ptr<net::TcpServer> server_;
  std::thread thread_;
};

class Return : public testing::Test {
 protected:
  explicit Return(std::uint32_t trainers = 1) : trainers_(trainers) {}

  // The next process of a trainer.
  std::unique_ptr<Program> process(std::uint32_t trainer = 0) {
    if (memories_.size() <= trainer) memories_.resize(trainer + 1);
    UniqueFd& memory = memories_[trainer].first;
    if (!memory) memory = UniqueFd(::memfd_create("kept", MFD_CLOEXEC));
    TrainingOptions options;
    options.trainer.config.clear();
    options.trainer.pservers = {first_.address(), second_.address()};
    options.trainer.ports_num = 0;
    options.trainer.num_gradient_servers = trainers_;
    options.trainer.trainer_id = trainer;
    options.trainer.job_tag = "job";
    options.trainer.save_dir = folder_.path();
    options.trainer.resume = true;
    options.trainer.incarnation = ++memories_[trainer].second;
    options.trainer.pull_silence_max = pull_silence_max_;
    options.memory = UniqueFd(::dup(memory.get()));
    return std::make_unique<Program>(std::move(options));
  }
  bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  std::uint32_t trainers_;
  Duration pull_silence_max_ = std::chrono::minutes(10);
  Pserver first_{0, trainers_}, second_{1, trainers_};
  std::vector<std::pair<UniqueFd, std::uint32_t>> memories_;  // with the last incarnation
  test::TemporaryFolder folder_;
};

class ReturnOfOneOfTwo : public Return {
 protected:
  ReturnOfOneOfTwo() : Return(2) {}
  // Calls both at the same time.
  static void both(Program& a, const std::string& request_a, Program& b,
                   const std::string& request_b, const std::string& part = "") {
    std::thread other([&] { expect_ok(b.call(request_b), part); });
    expect_ok(a.call(request_a), part);
    other.join();
  }
  static void train_both(Program& a, Program& b, float gradient) {
    std::thread other([&] { train(b, gradient); });
    train(a, gradient);
    other.join();
  }
};

TEST_F(Return, ContinuesAfterItsLastBatch) {
  {
    const auto before = process();
    expect_ok(before->call(hello()), R"("resumed":false,"returned":false)");
    train(*before, 1);
    train(*before, 1);
  }
  const auto after = process();
  expect_ok(after->call(hello()),
            R"("pass":0,"batch":2,"samples":6,"resumed":true,"returned":true)");
  train(*after, 1);
  expect_ok(after->call(kFinish), R"("pass":1,"samples":9,"cost":1.5)");
}

TEST_F(Return, RepeatsAPushThatReachedOnePserver) {
  for (const int passes : {0, 1}) {  // finished before
    std::vector<float> start;
    {
      const auto before = process();
      expect_ok(before->call(hello()));
      if (passes > 0) expect_ok(before->call(kFinish));
      const std::uint32_t pulled = before->pull("item", kMany, 1);
      start = before->values;
      second_.stop();
      EXPECT_TRUE(says(before->push("item", pulled, std::vector<float>(20, 1)), "unreachable"));
      EXPECT_TRUE(says(before->call(kFinish), "unreachable")) << "as every later request";
    }
    second_.start();
    const auto after = process();
    expect_ok(after->call(hello()), fmt::format(R"("pass":{},"batch":1)", passes));
    after->pull("item", kMany, 1);
    for (std::size_t i = 0; i < kMany.size(); ++i) EXPECT_EQ(after->values[i], start[i] - 1) << i;
    train(*after, 0);
    expect_ok(after->call(kFinish), R"("samples":4)");
  }
}

TEST_F(Return, WithoutTheMemoryALostPushEndsTheJob) {
  {
    const auto before = process();
    expect_ok(before->call(hello()));
    const std::uint32_t pulled = before->pull("item", kMany, 1);
    second_.stop();
    EXPECT_TRUE(says(before->push("item", pulled, std::vector<float>(20, 1)), "unreachable"));
  }
  second_.start();
  memories_[0].first.reset();
  const auto after = process();
  const std::string answer = after->call(hello());
  EXPECT_TRUE(says(answer, "reached only some ports, and is lost")) << answer;
  EXPECT_TRUE(says(answer, R"("kind":"unreachable")")) << answer;
}

TEST_F(Return, AfterTheEndOfAPassMakesTheSameCallsAgain) {
  {
    const auto before = process();
    expect_ok(before->call(hello()));
    train(*before, 1);
    train(*before, 1);
    expect_ok(before->call(kFinish), R"("pass":1,"samples":6,"cost":1)");
  }
  {
    const auto again = process();
    expect_ok(again->call(hello()), R"("pass":0,"batch":2,"samples":6,"resumed":true)");
    EXPECT_TRUE(says(again->call(R"({"op":"push","samples":1,"tables":[]})"),
                     "trained 2 batches of pass 1 (pass-00000) before it was started again"));
    expect_ok(again->call(kFinish), R"("pass":1,"samples":6,"cost":1)");
    expect_ok(again->call(kSave), "pass-00000");
  }
  EXPECT_TRUE(has("pass-00000"));
  const auto next = process();
  expect_ok(next->call(hello()), R"("pass":1,"batch":0)");
  std::filesystem::remove_all(folder_ / "pass-00000");
  expect_ok(next->call(kSave), "pass-00000");
  EXPECT_FALSE(has("pass-00000")) << "the save and its barrier are over";
  train(*next, 1);
}

TEST_F(ReturnOfOneOfTwo, InASaveWithinAPassSavesAtTheSamePlace) {
  const std::string name = "pass-00000-000001";
  auto a = process(0);
  const auto b = process(1);
  both(*a, hello(), *b, hello());
  train_both(*a, *b, 1);
  a->send(kSave);
  expect_ok(b->call(kFinish), R"("paused":true)");
  a->waiting();  // at the second barrier, for which the other trainer has not asked
  ASSERT_TRUE(has(name));
  a.reset();
  std::filesystem::remove_all(folder_ / name);
  a = process(0);
  expect_ok(a->call(hello()), R"("pass":0,"batch":1)");
  add_state(*a, "again");
  both(*a, kSave, *b, kSave, R"("within_pass":true)");
  const auto snapshot = snapshot::SnapshotReader::open(folder_ / name);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(snapshot->info().pass_batches, (std::vector<std::uint64_t>{1, 1}));
  EXPECT_EQ(**snapshot->read_model_file("model/state"), "again");
  train_both(*a, *b, 1);
  both(*a, kFinish, *b, kFinish, R"("samples":12)");
}

TEST_F(ReturnOfOneOfTwo, AfterASaveWithinAPassDoesNotSaveTwice) {
  auto a = process(0);
  const auto b = process(1);
  both(*a, hello(), *b, hello());
  train_both(*a, *b, 1);
  both(*a, kSave, *b, kSave);
  a.reset();
  a = process(0);
  expect_ok(a->call(hello()), R"("pass":0,"batch":1)");
  expect_ok(a->call(kSave), R"("within_pass":true)");  // without the other trainer
  train_both(*a, *b, 1);
}

TEST_F(ReturnOfOneOfTwo, ThatPushesInsteadOfSavingReleasesTheOther) {
  auto a = process(0);
  const auto b = process(1);
  both(*a, hello(), *b, hello());
  train_both(*a, *b, 1);
  a->send(kSave);
  a->waiting();
  a.reset();
  a = process(0);
  expect_ok(a->call(hello()), R"("pass":0,"batch":1)");
  std::thread other([&] {
    expect_ok(b->call(kSave), R"("within_pass":true)");
    train(*b, 1);
  });
  train(*a, 1);
  other.join();
  EXPECT_FALSE(has("pass-00000-000001"));
  both(*a, kFinish, *b, kFinish, R"("samples":12)");
}

TEST_F(ReturnOfOneOfTwo, InAPausedEndOfAPassIsPausedAgain) {
  const auto a = process(0);
  auto b = process(1);
  both(*a, hello(), *b, hello());
  train_both(*a, *b, 1);
  const std::uint32_t saved = a->send(kSave);
  expect_ok(b->call(kFinish), R"("paused":true)");
  b.reset();
  b = process(1);
  expect_ok(b->call(hello()), R"("pass":0,"batch":1)");
  expect_ok(b->call(kFinish), R"("paused":true)");
  expect_ok(b->call(kSave));
  EXPECT_EQ(a->receive().first, saved);
}

TEST_F(ReturnOfOneOfTwo, APausedPassIsSavedByAll) {
  const auto a = process(0);
  const auto b = process(1);
  both(*a, hello(), *b, hello());
  train_both(*a, *b, 1);
  const std::uint32_t saved = a->send(kSave);
  expect_ok(b->call(kFinish), R"("pass":0,"samples":6,"cost":1,"tables":{},"paused":true)");
  EXPECT_TRUE(says(b->call(R"({"op":"push","samples":1,"tables":[]})"), "must save now"));
  EXPECT_TRUE(says(b->call(kFinish), "the next request is save"));
  expect_ok(b->call(kSave), R"("path":"","within_pass":true)");
  EXPECT_EQ(a->receive().first, saved);
  EXPECT_TRUE(has("pass-00000-000001"));
  both(*a, kLeave, *b, kLeave);
}

TEST_F(ReturnOfOneOfTwo, AbandonEndsTheJobForAll) {
  const auto a = process(0);
  const auto b = process(1);
  both(*a, hello(), *b, hello());
  const std::uint32_t pushed = a->send(R"({"op":"push","samples":1,"tables":[]})");
  expect_ok(b->call(R"({"op":"abandon","message":"no more"})"));
  const auto [number, answer] = a->receive();
  EXPECT_EQ(number, pushed);
  EXPECT_TRUE(says(answer, R"("ok":false)") && says(answer, "no more")) << answer;
}

TEST_F(ReturnOfOneOfTwo, WaitingNamesTheOtherTrainers) {
  const auto a = process(0);
  const auto b = process(1);
  both(*a, hello(), *b, hello());
  a->send(R"({"op":"push","samples":1,"tables":[]})");
  const std::string waiting = a->waiting();
  EXPECT_TRUE(says(waiting, "trainer 1")) << waiting;
}

TEST_F(Return, APortThatAnswersNoPullIsNamed) {
  pull_silence_max_ = std::chrono::milliseconds(200);
  const auto program = process();
  expect_ok(program->call(hello()));
  second_.answer_no_pull();
  std::vector<std::uint64_t> ids = kMany;
  std::ranges::copy(ids, program->at<std::uint64_t>(0));
  const std::string answer =
      program->call(R"({"op":"pull","tables":[{"table":"item","ids":[0,20],"out":192}]})");
  EXPECT_TRUE(says(answer, R"("kind":"unreachable")")) << answer;
  EXPECT_TRUE(says(answer, second_.address())) << answer;
}

// An exception of a program, while its trainer waits for the other.

TEST_F(ReturnOfOneOfTwo, AbandonReachesTheOthersFromARequestThatWaits) {
  for (const char* const waits : {R"({"op":"push","samples":1,"tables":[]})", R"({"op":"save"})",
                                  R"({"op":"finish_pass"})"}) {
    SCOPED_TRACE(waits);
    Pserver first(0, 2), second(1, 2);
    const auto start = [&](std::uint32_t trainer) {
      TrainingOptions options;
      options.trainer.config.clear();
      options.trainer.pservers = {first.address(), second.address()};
      options.trainer.ports_num = 0;
      options.trainer.num_gradient_servers = 2;
      options.trainer.trainer_id = trainer;
      options.trainer.job_tag = "job";
      return std::make_unique<Program>(std::move(options));
    };
    const auto a = start(0), b = start(1);
    both(*a, hello(), *b, hello());
    const std::uint32_t waiting = a->send(waits);
    const std::uint32_t queued = a->send(R"({"op":"finish_pass"})");
    EXPECT_TRUE(says(a->waiting(), "trainer"));
    const std::uint32_t abandon = a->send(R"({"op":"abandon","message":"bad data"})");
    std::vector<std::uint32_t> order;
    for (int i = 0; i < 3; ++i) {
      const auto [number, answer] = a->receive();
      order.push_back(number);
      EXPECT_EQ(says(answer, R"("ok":true)"), number == abandon) << answer;
    }
    EXPECT_EQ(order, (std::vector<std::uint32_t>{waiting, abandon, queued}));
    const std::string other = b->call(R"({"op":"push","samples":1,"tables":[]})");
    EXPECT_TRUE(says(other, "bad data")) << other;
  }
}

TEST_F(ReturnOfOneOfTwo, AnAbandonWithAMistakeEndsNothing) {
  const auto a = process(0), b = process(1);
  both(*a, hello(), *b, hello());
  const std::uint32_t waiting = a->send(R"({"op":"push","samples":1,"tables":[]})");
  const std::uint32_t wrong = a->send(R"({"op":"abandon","kind":"x","message":"bad data"})");
  expect_ok(b->call(R"({"op":"push","samples":1,"tables":[]})"));
  auto [number, answer] = a->receive();
  EXPECT_EQ(number, waiting);
  expect_ok(answer);
  std::tie(number, answer) = a->receive();
  EXPECT_EQ(number, wrong);
  EXPECT_TRUE(says(answer, "'kind' must be failed or unreachable")) << answer;
}

// Nothing listens there, and the time to connect is long.
TEST(Joining, EndsWithItsChannel) {
  for (const bool abandons : {false, true}) {
    TrainingOptions options;
    options.trainer.config.clear();
    options.trainer.pservers = {"127.0.0.1:1"};
    options.trainer.ports_num = 0;
    options.trainer.connect_timeout = 3600;
    Program program(std::move(options));
    program.send(hello());
    expect_ok(program.call(R"({"op":"alive"})"));
    if (abandons) {
      program.send(R"({"op":"abandon","message":"bad data"})");
      // abandon is answered first if hello has not begun.
      std::string answers = program.receive().second;
      answers += program.receive().second;
      EXPECT_TRUE(says(answers, "connect")) << "hello ends: " << answers;
    }
    EXPECT_TRUE(program.end());
  }
}

}  // namespace
}  // namespace paddle::sidecar
