// Pairs of ranks with several sockets, and others that call while these come.
#include <poll.h>
#include <sys/socket.h>

#include "base/rng.h"
#include "base/text.h"
#include "tests/unit/engine/net/mesh_fixture.h"

namespace paddle::net::peer {
namespace {

constexpr std::uint32_t kLanesHere = 3;
constexpr auto kTcpInfo = 11;  // TCP_INFO: <linux/tcp.h>, which has the bytes, goes with no other

TimePoint now() {
  return SteadyClock().now();
}

// Bytes that the peer has acknowledged.
std::uint64_t acknowledged(int fd) {
  std::array<std::byte, 256> info{};
  socklen_t size = info.size();
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, kTcpInfo, info.data(), &size), 0);
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, info.data() + 120, sizeof bytes);  // tcpi_bytes_acked
  return bytes;
}

Bytes noise(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(count);
  for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = rng.next();
    std::memcpy(&bytes[at], &word, std::min(sizeof word, count - at));
  }
  return bytes;
}

// Sends a frame each way at once.
void exchange(Connection& a, Connection& b, const Bytes& from_a, const Bytes& from_b) {
  FrameHeader segment;
  segment.type = static_cast<std::uint8_t>(FrameType::kSegment);
  a.begin(segment, "", from_a);
  b.begin(segment, "", from_b);
  std::optional<Frame> at_a;
  std::optional<Frame> at_b;
  const TimePoint end = soon();
  const auto serve = [end](Connection& one, std::optional<Frame>& got) {
    ASSERT_LT(now(), end);
    const auto written = one.flush();
    ASSERT_TRUE(written) << written.error().message;
    if (got) return;
    const auto count = one.read();
    ASSERT_TRUE(count) << count.error().message;
    const auto header = one.peek();
    ASSERT_TRUE(header) << header.error().message;
    if (*header == nullptr) return;
    auto frame = one.next({});
    ASSERT_TRUE(frame) << frame.error().message;
    got = *std::move(frame);
  };
  while (!at_a || !at_b || a.is_writing() || b.is_writing()) {
    serve(a, at_a);
    serve(b, at_b);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(at_a->tail, from_b);
  EXPECT_EQ(at_b->tail, from_a);
}

// The handshake's end, or its error once the other end has turned it away.
Status finish(Handshake& handshake) {
  const TimePoint end = soon();
  while (now() < end) {
    PADDLE_TRY(const bool is_done, handshake.advance(now()));
    if (is_done) return {};
    std::this_thread::yield();
  }
  return Error{Errc::kFailed, "no end of a handshake"};
}

class LanesTest : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    ranks_.transport = GetParam();
    ranks_.lanes = kLanesHere;
    self_ = ranks_.options(1).self;
  }
  void TearDown() override {
    if (rank0_.joinable()) rank0_.join();
  }
  void start_rank0(TimePoint deadline = soon()) {
    rank0_ = std::thread([this, deadline, own = std::make_shared<MeshOptions>(ranks_.options(0))] {
      first_ = connect_ranks(*own, deadline);
    });
  }
  // The test's own end of the connection with rank 0.
  void begin_as_rank1() {
    auto handshake = Handshake::call(self_, {Role::kTrainer, 0}, call(ranks_.endpoints[0]), now());
    ASSERT_TRUE(handshake);
    const Status done = finish(**handshake);
    ASSERT_TRUE(done) << done.error().message;
    transcript_ = (*handshake)->transcript();
    connection_ = (*handshake)->take();
  }
  Result<Lane> call_lane(const Self& self, const Transcript& first, std::uint8_t number) {
    PADDLE_TRY(auto handshake,
               Handshake::call_lane(self, first, number, call(ranks_.endpoints[0]), now()));
    PADDLE_TRY_STATUS(finish(*handshake));
    return handshake->take_lane();
  }

  Ranks ranks_ = Ranks(2);
  Self self_ = {.keys = keys_of(1), .id = {}};
  std::thread rank0_;
  Result<Connections> first_ = none();
  Transcript transcript_;
  std::unique_ptr<Connection> connection_;
};

INSTANTIATE_TEST_SUITE_P(Transports, LanesTest,
                         testing::Values(Transport::kSealed, Transport::kAlways),
                         [](const auto& transport) {
                           return transport.param == Transport::kAlways ? "Tls" : "Tcp";
                         });

TEST_P(LanesTest, MeetAndAllOfThemCarryTheBytes) {
  start_rank0();
  const auto second = connect_ranks(ranks_.options(1), soon());
  rank0_.join();
  ASSERT_TRUE(first_) << first_.error().message;
  ASSERT_TRUE(second) << second.error().message;
  Connection& a = *(*first_)[1];
  Connection& b = *(*second)[0];
  ASSERT_EQ(a.lanes(), kLanesHere);
  ASSERT_EQ(b.lanes(), kLanesHere);
  constexpr std::size_t kBytes = 6U << 20U;
  exchange(a, b, noise(kBytes, 1), noise(kBytes + 77, 2));
  exchange(a, b, noise(5, 3), {});
  const TimePoint end = soon();
  for (Connection* const one : {&a, &b}) {
    for (std::size_t lane = 0; lane < kLanesHere; ++lane) {
      while (acknowledged(one->descriptor(lane)) < kBytes / kLanesHere && now() < end) {
        std::this_thread::yield();
      }
      EXPECT_GE(acknowledged(one->descriptor(lane)), kBytes / kLanesHere) << lane;
      EXPECT_LT(acknowledged(one->descriptor(lane)), kBytes * 11 / 10 / kLanesHere) << lane;
    }
  }
}

TEST_P(LanesTest, StrangersAreTurnedAwayAndTheLanesStillMeet) {
  testing::internal::CaptureStderr();
  start_rank0();
  begin_as_rank1();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(call(ranks_.endpoints[0]));
  Self wrong_key = self_;
  wrong_key.keys = keys_of(2);
  EXPECT_FALSE(call_lane(wrong_key, transcript_, 1));
  Transcript other_session = transcript_;
  other_session.server_nonce[5] ^= std::byte{1};
  EXPECT_FALSE(call_lane(self_, other_session, 1));
  Self other_incarnation = self_;
  other_incarnation.incarnation += 1;
  EXPECT_FALSE(call_lane(other_incarnation, transcript_, 1));
  Self other_rank = self_;
  other_rank.id.index = 0;
  EXPECT_FALSE(call_lane(other_rank, transcript_, 1));
  for (const std::uint32_t number : {0U, kLanesHere, 255U}) {
    EXPECT_FALSE(call_lane(self_, transcript_, static_cast<std::uint8_t>(number))) << number;
  }
  std::vector<Lane> lanes;
  for (std::uint8_t number = 1; number < kLanesHere; ++number) {
    auto lane = call_lane(self_, transcript_, number);
    ASSERT_TRUE(lane) << lane.error().message;
    lanes.push_back(*std::move(lane));
    if (number + 1U == kLanesHere) break;
    EXPECT_FALSE(call_lane(self_, transcript_, number)) << "again";
  }
  connection_->widen(std::move(lanes));
  rank0_.join();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is refused: "), std::string::npos);
  ASSERT_TRUE(first_) << first_.error().message;
  exchange(*(*first_)[1], *connection_, noise(1'000'000, 4), noise(1'000'000, 5));
}

TEST_P(LanesTest, OneThatEndsBeforeTheOthersHaveComeIsCalledAgain) {
  start_rank0();
  begin_as_rank1();
  ASSERT_TRUE(call_lane(self_, transcript_, 1));  // and closed at once
  std::vector<Lane> lanes;
  const TimePoint end = soon();
  for (std::uint8_t number = 1; number < kLanesHere && now() < end;) {
    auto lane = call_lane(self_, transcript_, number);
    if (!lane) continue;  // rank 0 has not seen the end yet
    lanes.push_back(*std::move(lane));
    ++number;
  }
  connection_->widen(std::move(lanes));
  rank0_.join();
  ASSERT_TRUE(first_) << first_.error().message;
  exchange(*(*first_)[1], *connection_, noise(500'000, 4), noise(500'000, 5));
}

TEST_P(LanesTest, OneThatDoesNotComeIsNamedAtTheDeadline) {
  start_rank0(in(std::chrono::seconds(2)));
  begin_as_rank1();
  const auto lane = call_lane(self_, transcript_, 1);
  ASSERT_TRUE(lane) << lane.error().message;
  rank0_.join();
  ASSERT_FALSE(first_);
  EXPECT_EQ(first_.error().code, Errc::kUnreachable);
  EXPECT_EQ(first_.error().message, "lane 2 of rank 1 did not connect before the deadline");
}

TEST_P(LanesTest, ARankThatTakesNoneIsNamedAtTheDeadline) {
  std::thread rank0([this] {
    pollfd item{ranks_.listeners[0].get(), POLLIN, 0};
    ::poll(&item, 1, 10'000);
    Self self = self_;
    self.id.index = 0;
    auto socket = next_caller(ranks_.listeners[0]);
    ASSERT_TRUE(socket);
    auto handshake = Handshake::accept(self, std::move(socket->socket), now());
    ASSERT_TRUE(handshake);
    const Status done = finish(**handshake);
    ASSERT_TRUE(done) << done.error().message;
    connection_ = (*handshake)->take();
  });
  const auto second = connect_ranks(ranks_.options(1), in(std::chrono::seconds(2)));
  rank0.join();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kUnreachable);
  EXPECT_EQ(second.error().message, "lane 1 of rank 0 did not connect before the deadline");
}

TEST_P(LanesTest, OfUnlikeNumbersAreRefusedByBothEndsNamingBoth) {
  for (const std::uint32_t others : {1U, 2U}) {
    Ranks ranks(2);
    ranks.transport = GetParam();
    ranks.lanes = kLanesHere;
    MeshOptions one = ranks.options(0);
    MeshOptions other = ranks.options(1);
    other.self.lanes = others;
    other.self.shares_memory = false;
    Result<Connections> first = none();
    std::thread rank0 = connecting(std::move(one), first);
    const auto second = connect_ranks(other, soon());
    rank0.join();
    const std::string number = std::to_string(others);
    for (const auto& [result, text] :
         {std::pair{&first, "rank 1 has lanes = " + number + ", but rank 0 has lanes = 3"},
          std::pair{const_cast<Result<Connections>*>(&second),
                    "rank 0 has lanes = 3, but rank 1 has lanes = " + number}}) {
      ASSERT_FALSE(*result);
      EXPECT_EQ(result->error().code, Errc::kUsage);
      EXPECT_EQ(result->error().message, text);
    }
  }
}

TEST_P(LanesTest, ABrokenOneIsSeenWhileNothingIsSent) {
  start_rank0();
  const auto second = connect_ranks(ranks_.options(1), soon());
  rank0_.join();
  ASSERT_TRUE(first_ && second);
  Connection& a = *(*first_)[1];
  EXPECT_TRUE(a.check_lanes());
  EXPECT_FALSE(a.is_closed());
  const sockaddr nothing{.sa_family = AF_UNSPEC, .sa_data = {}};
  ASSERT_EQ(::connect((*second)[0]->descriptor(2), &nothing, sizeof nothing), 0);  // resets it
  const TimePoint end = soon();
  while (a.check_lanes() && now() < end) std::this_thread::yield();
  const Status broken = a.check_lanes();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Errc::kUnreachable);
  EXPECT_EQ(broken.error().message, "lane 2 of 3 is broken");
  EXPECT_TRUE(a.is_closed());
  EXPECT_EQ(a.reads_from(), a.descriptor(0));
}

TEST(Lanes, RanksThatShareMemoryHaveOneSocket) {
  Ranks ranks(2);
  MeshOptions one = ranks.options(0);
  MeshOptions other = ranks.options(1);
  one.self.lanes = other.self.lanes = 4;
  Result<Connections> first = none();
  std::thread rank0 = connecting(std::move(one), first);
  const auto second = connect_ranks(other, soon());
  rank0.join();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE((*second)[0]->is_memory());
  EXPECT_EQ((*second)[0]->lanes(), 1U);
}

TEST(Lanes, TheProofHasTheGoldenBytesOfTheProtocol) {
  // Computed independently (Python hmac, hashlib) from PROTOCOL.md.
  const auto transcript = [](unsigned client, unsigned server) {
    Transcript made;
    for (unsigned i = 0; i < kNonceBytes; ++i) {
      made.client_nonce[i] = static_cast<std::byte>(client + i);
      made.server_nonce[i] = static_cast<std::byte>(server + i);
    }
    return made;
  };
  const Proof proof = make_lane_proof(secret_of(1), transcript(0, 100), transcript(40, 200), 3);
  EXPECT_EQ(to_hex(proof), "cdd3b1d43ee0041eebcd9358f2f473d9dfe10da9919759b94b51477a60d9d95c");
}

TEST(Lanes, TheFrameOfAFurtherLaneHasTheBytesOfTheProtocol) {
  Ranks ranks(1);
  const Self self{.keys = keys_of(1), .id = {Role::kTrainer, 1}, .incarnation = 5, .job_tag = kJob};
  Transcript first;
  first.server = {Role::kTrainer, 0};
  first.client_nonce.fill(std::byte{1});
  first.server_nonce.fill(std::byte{2});
  auto caller = Handshake::call_lane(self, first, 3, call(ranks.endpoints[0]), now());
  ASSERT_TRUE(caller);
  auto socket = next_caller(ranks.listeners[0]);
  ASSERT_TRUE(socket);
  const auto stream = make_socket_stream(socket->socket.get());
  const JobKeys keys = keys_of(1);
  ServerSession server({keys, first.server, kJob, 9}, Nonce{}, now());
  FrameReader reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax);
  FrameWriter writer;
  std::optional<Frame> lane;
  bool is_done = false;
  for (const TimePoint end = soon(); !is_done && now() < end;) {
    const auto advanced = (*caller)->advance(now());
    ASSERT_TRUE(advanced) << advanced.error().message;
    is_done = *advanced;
    ASSERT_TRUE(writer.flush(*stream));
    reader.commit(*stream->read_some(reader.space()));
    auto frame = *reader.next();
    if (!frame) continue;
    if (server.proven()) lane = *frame;
    auto answer = lane ? server.frame_of(kLaneTaken) : server.on_frame(now(), *frame);
    ASSERT_TRUE(answer) << answer.error().message;
    writer.push(*std::move(answer));
  }
  ASSERT_TRUE(is_done && lane);
  EXPECT_EQ(
      lane->header,
      (FrameHeader{
          .type = kLane, .job_tag = kJob, .sender = self.id, .incarnation = self.incarnation}));
  EXPECT_EQ(lane->head, "");
  const Secret pair = *keys.pair(self.id, first.server);
  EXPECT_EQ(to_hex(lane->tail),
            "03" + to_hex(make_lane_proof(pair, first, server.transcript(), 3)));
  EXPECT_TRUE((*caller)->take_lane());
}

}  // namespace
}  // namespace paddle::net::peer
