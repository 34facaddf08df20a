// Readers of a port: how they share it with trainers.
#include <vector>

#include "engine/net/socket.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

// Echoes, records the sender of each frame, and stops at the first frame of a reader until
// release().
class OrderHandler final : public FrameHandler {
 public:
  void on_frame(TimePoint /*now*/, PeerId from, Frame&& frame,
                std::vector<Outgoing>& out) override {
    const Role role = frame.header.sender.role;
    if (role == Role::kReader && !has_stopped_) {
      has_stopped_ = stopped = true;
      stopped.notify_all();
      released_.wait(false);
    }
    order.push_back(role);
    out.push_back({from, std::move(frame), false});
  }
  void on_disconnect(TimePoint /*now*/, PeerId /*from*/, std::vector<Outgoing>& /*out*/) override {}
  void on_tick(TimePoint /*now*/, std::vector<Outgoing>& /*out*/) override {}
  void release() {
    released_ = true;
    released_.notify_all();
  }

  std::atomic<bool> stopped = false;
  std::vector<Role> order;  // read it after the server has stopped

 private:
  bool has_stopped_ = false;
  std::atomic<bool> released_ = false;
};

class ReadersTest : public NetTest {
 protected:
  ClientOptions reader(std::uint32_t number) const {
    ClientOptions options = client(0);
    options.self = {Role::kReader, number};
    return options;
  }
  std::unique_ptr<Link> connect_reader(std::uint32_t number) {
    auto link = connect(reader(number), soon());
    EXPECT_TRUE(link) << link.error().message;
    return link ? std::move(*link) : nullptr;
  }
};

// A trainer and a reader of one port. The parameter says whether the trainer uses shared memory.
class ReaderFlood : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::size_t kFrames = 300;

  void start(FrameHandler& handler, const Clock* clock = nullptr) {
    ServerOptions server_options{{"127.0.0.1", 0}, keys_of(1), kServer, kJob, 9};
    server_options.clock = clock;
    auto server = TcpServer::listen(std::move(server_options), handler);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->run(); });
    ClientOptions options{{"127.0.0.1", server_->port()},
                          keys_of(1),
                          {Role::kTrainer, 0},
                          5,
                          kServer,
                          kJob,
                          Transport::kSealed,
                          GetParam()};
    auto trainer = connect(options, soon());
    options.self = {Role::kReader, 0};
    auto reader = connect(options, soon());
    ASSERT_TRUE(trainer && reader);
    trainer_ = *std::move(trainer);
    reader_ = *std::move(reader);
  }
  void TearDown() override { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  static void send(Link& link, std::size_t count = 1) {
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_TRUE(link.send(frame_of(kEchoType, "", 8), soon()));
  }
  static void receive(Link& link, std::size_t count = 1) {
    for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(link.receive(soon()));
  }

  std::unique_ptr<TcpServer> server_;
  std::thread thread_;
  std::unique_ptr<Link> trainer_, reader_;
};

TEST_P(ReaderFlood, DelaysATrainerByOneRequest) {
  OrderHandler handler;
  start(handler);
  send(*reader_, kFrames);
  handler.stopped.wait(false);
  send(*trainer_);
  handler.release();
  receive(*trainer_);
  receive(*reader_, kFrames);
  stop();
  ASSERT_EQ(handler.order.size(), kFrames + 1);
  // The request that the reader had under way, and one more if the port had not seen the frame yet.
  EXPECT_LE(std::ranges::find(handler.order, Role::kTrainer) - handler.order.begin(), 2);
}

// Time that passes only in advance(), from any thread.
class HandClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(passed_)); }
  void advance(Duration time) { passed_ += time.count(); }

 private:
  std::atomic<Duration::rep> passed_ = Duration(std::chrono::hours(1)).count();
};

// Echoes. A frame of a reader takes kReadTime, one of a trainer no time.
class TimedHandler final : public FrameHandler {
 public:
  static constexpr Duration kReadTime = std::chrono::milliseconds(2);

  explicit TimedHandler(HandClock& clock) : clock_(clock) {}
  void on_frame(TimePoint /*now*/, PeerId from, Frame&& frame,
                std::vector<Outgoing>& out) override {
    if (frame.header.sender.role == Role::kReader) {
      ++reads;
      clock_.advance(kReadTime);
    }
    out.push_back({from, std::move(frame), false});
  }
  void on_disconnect(TimePoint /*now*/, PeerId /*from*/, std::vector<Outgoing>& /*out*/) override {}
  void on_tick(TimePoint /*now*/, std::vector<Outgoing>& /*out*/) override {}

  std::atomic<std::size_t> reads = 0;

 private:
  HandClock& clock_;
};

// Without charge_readers(), a turn of the port that serves the trainer would serve the reader too.
TEST_P(ReaderFlood, HasATenthOfThePortWhileTrainersUseIt) {
  constexpr Duration kInstant{1};
  constexpr std::size_t kRounds = 10;
  HandClock clock;
  TimedHandler handler(clock);
  start(handler, &clock);
  const auto exchange = [&](int times) {
    for (int i = 0; i < times; ++i) {
      send(*trainer_);
      receive(*trainer_);
    }
  };
  exchange(1);
  const TimePoint begun = clock.now();
  send(*reader_, kFrames);
  for (std::size_t round = 1; round <= kRounds; ++round) {
    receive(*reader_);
    exchange(20);
    clock.advance(9 * TimedHandler::kReadTime - kInstant);
    exchange(20);
    EXPECT_EQ(handler.reads, round);
    clock.advance(kInstant);
  }
  receive(*reader_);
  EXPECT_EQ(clock.now() - begun, (10 * kRounds + 1) * TimedHandler::kReadTime);

  // When the trainer has been silent for a while, the reader has the port for itself.
  constexpr Duration kSilence = std::chrono::milliseconds(100);
  const TimePoint silent = clock.now() + kSilence;
  clock.advance(kSilence);
  receive(*reader_, kFrames - kRounds - 1);
  EXPECT_EQ(clock.now() - silent, (kFrames - kRounds - 1) * TimedHandler::kReadTime);
  stop();
}

INSTANTIATE_TEST_SUITE_P(Trainers, ReaderFlood, ::testing::Bool());

// Without a limit, the answers would pass the 256 MiB that may be queued for one peer.
TEST_F(ReadersTest, AnswersAreMadeOnlyAsFastAsTheReaderReadsThem) {
  constexpr std::size_t kAnswers = 100;
  auto link = connect_reader(0);
  ASSERT_TRUE(link);
  Frame ask = frame_of(kFloodType, "", 0);
  ask.header.step = 1;
  ask.header.sequence = 4U << 20U;
  for (std::size_t i = 0; i < kAnswers; ++i) ASSERT_TRUE(link->send(ask, soon()));
  auto trainer = connect_trainer(1);
  ASSERT_TRUE(trainer);
  ASSERT_TRUE(trainer->send(frame_of(kEchoType, "", 0), soon()));
  ASSERT_TRUE(trainer->receive(soon()));
  EXPECT_LT(handler_.frames, static_cast<int>(kAnswers));
  for (std::size_t i = 0; i < kAnswers; ++i) {
    const auto answer = link->receive(soon());
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(answer->tail.size(), ask.header.sequence);
  }
}

TEST_F(ReadersTest, AllTogetherHaveSixtyFourConnections) {
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 64; ++i) {
    links.push_back(connect_reader(7));
    ASSERT_TRUE(links.back());
    ASSERT_TRUE(links.back()->send(frame_of(kEchoType, "", 0), soon()));
    ASSERT_TRUE(links.back()->receive(soon()));
  }
  for (int i = 0; i < 3; ++i) {
    const auto surplus = connect(reader(8), soon());
    ASSERT_FALSE(surplus);
    EXPECT_EQ(surplus.error().code, Errc::kResource);
    EXPECT_NE(surplus.error().message.find("64 readers are connected to this port"),
              std::string::npos)
        << surplus.error().message;
    EXPECT_FALSE(surplus.error().hint.empty());
  }
  // Readers that had connected before go on, and trainers still connect.
  ASSERT_TRUE(links.front()->send(frame_of(kEchoType, "", 0), soon()));
  EXPECT_TRUE(links.front()->receive(soon()));
  EXPECT_TRUE(joined_trainer(0));
  // A place is free again once its reader has gone.
  links.pop_back();
  wait_disconnects(1);
  auto next = connect_reader(9);
  ASSERT_TRUE(next);
  ASSERT_TRUE(next->send(frame_of(kEchoType, "", 0), soon()));
  EXPECT_TRUE(next->receive(soon()));
}

TEST_F(ReadersTest, ALongRequestIsRefusedAlsoAfterTheFirst) {
  auto link = connect_reader(0);
  ASSERT_TRUE(link);
  ASSERT_TRUE(link->send(frame_of(kEchoType, "", 0), soon()));
  ASSERT_TRUE(link->receive(soon()));
  const bool is_sent = static_cast<bool>(link->send(frame_of(kEchoType, "", 8U << 20U), soon()));
  EXPECT_FALSE(is_sent && link->receive(soon()));
  EXPECT_TRUE(joined_trainer(0));
}

TEST_F(ReadersTest, OneThatGoesWithRequestsUnderWayHarmsNobody) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    auto link = connect_reader(i);
    ASSERT_TRUE(link);
    for (int j = 0; j < 50; ++j) ASSERT_TRUE(link->send(frame_of(kEchoType, "", 4096), soon()));
  }
  wait_disconnects(8);
  EXPECT_TRUE(joined_trainer(0));
}

class SealedReaders : public ReadersTest {
 protected:
  SealedReaders() { transport_ = Transport::kAlways; }
};

TEST_F(SealedReaders, AreServedRequestByRequest) {
  auto link = connect_reader(0);
  ASSERT_TRUE(link);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(link->send(frame_of(kEchoType, "", 1000), soon()));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(link->receive(soon()));
  auto other = keys_of(2);
  ClientOptions stranger = reader(1);
  stranger.keys = other;
  EXPECT_FALSE(connect(stranger, in(std::chrono::seconds(5))));
}

}  // namespace
}  // namespace paddle::net
