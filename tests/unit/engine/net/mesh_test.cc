// Ranks that find each other while others call their ports.
#include "engine/net/mesh.h"

#include <netinet/tcp.h>

#include <atomic>
#include <thread>

#include "tests/unit/engine/net/mesh_fixture.h"

namespace paddle::net::peer {
namespace {

TEST(Mesh, NothingPacesWhatStaysOnTheHost) {
  Ranks ranks(2);
  Result<Connections> first = none();
  std::thread rank0 = connecting(ranks.options(0), first);
  const auto second = connect_ranks(ranks.options(1), soon());
  rank0.join();
  ASSERT_TRUE(first && second);
  for (const int descriptor : {(*first)[1]->descriptor(0), (*second)[0]->descriptor(0)}) {
    std::array<char, 16> algorithm{};  // TCP_CA_NAME_MAX
    socklen_t size = algorithm.size();
    ASSERT_EQ(::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(), &size), 0);
    EXPECT_EQ(std::string(algorithm.data()), "reno");
  }
}

TEST(Mesh, Trap19StrangersAndWrongKeysAreTurnedAwayAndTheRanksStillMeet) {
  for (const Transport transport : {Transport::kSealed, Transport::kAlways}) {
    Ranks ranks(2);
    ranks.transport = transport;
    Result<Connections> first = none();
    std::thread rank0 = connecting(ranks.options(0), first);
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 10; ++i) silent.push_back(call(ranks.endpoints[0]));
    const UniqueFd loud = call(ranks.endpoints[0]);
    const std::string noise(1000, 'x');
    EXPECT_TRUE(write_all(loud.get(), as_bytes(noise), soon()));
    const auto wrong = connect_ranks(ranks.options(1, 1, /*key=*/2), soon());
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, Errc::kAuth) << wrong.error().message;
    EXPECT_TRUE(wrong.error().message.starts_with("rank 0")) << wrong.error().message;

    ranks.listeners[1] = *listen({"127.0.0.1", 0});
    const auto second = connect_ranks(ranks.options(1), soon());
    ASSERT_TRUE(second) << second.error().message;
    rank0.join();
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ((*first)[1]->ends().peer, (NodeId{Role::kTrainer, 1}));
  }
}

// Calls a port as fast as it can, and holds the last calls; they say `words`.
class Flood {
 public:
  Flood(const Endpoint& to, const char* from, std::string words = "") {
    thread_ = std::thread([this, to, from, words] { run(*parse_endpoint(to), from, words); });
  }
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  int made() const { return made_; }

 private:
  void run(const asio::ip::tcp::endpoint& to, const char* from, const std::string& words) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &here.sin_addr);
    std::vector<UniqueFd> held(400);
    for (std::size_t at = 0; !stop_; at = (at + 1) % held.size()) {
      UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int late = 1;
      ::setsockopt(fd.get(), SOL_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late);
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here);
      ::connect(fd.get(), to.data(), static_cast<socklen_t>(to.size()));
      if (!words.empty()) ::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
      held[at] = std::move(fd);
      // Leaves the ranks some time on a machine of few cores.
      if (++made_ % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> made_ = 0;
  std::thread thread_;
};

struct FloodCase {
  std::string name;
  Transport transport;
  const char* from;
  std::string words;
};

class MeshInAFlood : public testing::TestWithParam<FloodCase> {};

TEST_P(MeshInAFlood, ItsRanksMeetThoughItIsFasterThanALook) {
  const FloodCase& flood_case = GetParam();
  Ranks ranks(2);
  ranks.transport = flood_case.transport;
  Result<Connections> first = none();
  const Flood flood(ranks.endpoints[0], flood_case.from, flood_case.words);
  const Flood more(ranks.endpoints[0], flood_case.from, flood_case.words);
  while (flood.made() < 600) std::this_thread::yield();  // before anybody accepts
  std::thread rank0 = connecting(ranks.options(0), first);
  const auto second = connect_ranks(ranks.options(1), soon());
  rank0.join();
  EXPECT_TRUE(second) << second.error().message;
  EXPECT_TRUE(first) << first.error().message;
}

std::vector<FloodCase> flood_cases() {
  const std::string begins_tls("\x16\x03\x01\x02\x00\x01", 6);
  std::vector<FloodCase> cases;
  for (const auto transport : {Transport::kAlways, Transport::kSealed}) {
    const std::string of = transport == Transport::kAlways ? "Tls" : "Sealed";
    cases.push_back({of + "SilentFromAnotherAddress", transport, "127.0.0.9", ""});
    cases.push_back({of + "TlsFromAnotherAddress", transport, "127.0.0.9", begins_tls});
    cases.push_back({of + "SilentFromTheRanksAddress", transport, "127.0.0.1", ""});
    cases.push_back({of + "NoiseFromTheRanksAddress", transport, "127.0.0.1", "x"});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, MeshInAFlood, testing::ValuesIn(flood_cases()),
                         [](const auto& one) { return one.param.name; });

TEST(Mesh, Trap19ManyStrangersFillFewLinesOfTheLog) {
  Ranks ranks(2);
  Result<Connections> first = none();
  testing::internal::CaptureStderr();
  std::thread rank0 = connecting(ranks.options(0), first);
  const Self stranger{.keys = keys_of(1), .id = {Role::kTrainer, 1}, .job_tag = kJob + 1};
  for (int i = 0; i < 100; ++i) {
    auto handshake = Handshake::call(stranger, {Role::kTrainer, 0}, call(ranks.endpoints[0]),
                                     SteadyClock().now());
    ASSERT_TRUE(handshake);
    auto done = (*handshake)->advance(SteadyClock().now());
    for (; done; done = (*handshake)->advance(SteadyClock().now())) std::this_thread::yield();
    EXPECT_EQ(done.error().code, Errc::kAuth);
  }
  const auto second = connect_ranks(ranks.options(1), soon());
  rank0.join();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(first && second);
  const auto lines = std::ranges::count(log, '\n');
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 20) << log;  // one a second
}

TEST(Mesh, ACallerThatIsNoHigherRankIsTurnedAway) {
  Ranks ranks(3);
  Result<Connections> second = none();
  Result<Connections> third = none();
  // Both wait for rank 0, which does not come yet.
  std::thread rank1 = connecting(ranks.options(1), second);
  std::thread rank2 = connecting(ranks.options(2), third);
  Self stranger{.keys = keys_of(1), .id = {Role::kPserver, 2}, .incarnation = 9, .job_tag = kJob};
  auto handshake =
      Handshake::call(stranger, {Role::kTrainer, 1}, call(ranks.endpoints[1]), SteadyClock().now());
  ASSERT_TRUE(handshake);
  for (;;) {  // until rank 1 has taken the proof, or has hung up
    const auto done = (*handshake)->advance(SteadyClock().now());
    if (!done || *done) break;
    std::this_thread::yield();
  }
  const auto first = connect_ranks(ranks.options(0), soon());
  rank1.join();
  rank2.join();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ((*second)[2]->ends().peer, (NodeId{Role::kTrainer, 2}));
}

TEST(Mesh, Trap18ALaterIncarnationTakesThePlaceOfAnEarlierOneAndIsNotReplacedByIt) {
  Ranks ranks(3);
  const auto self_of = [&](std::uint32_t incarnation) {
    Self self{.keys = keys_of(1),
              .id = {Role::kTrainer, 1},
              .incarnation = incarnation,
              .job_tag = kJob,
              .shares_memory = false};
    return self;
  };
  Result<Connections> first = none();
  std::thread rank0 = connecting(ranks.options(0), first);
  std::vector<std::unique_ptr<Connection>> lives;
  for (const std::uint32_t incarnation : {4U, 5U, 3U}) {
    const Self self = self_of(incarnation);
    auto handshake =
        Handshake::call(self, {Role::kTrainer, 0}, call(ranks.endpoints[0]), SteadyClock().now());
    ASSERT_TRUE(handshake);
    for (bool is_done = false; !is_done;) {
      const auto advanced = (*handshake)->advance(SteadyClock().now());
      ASSERT_TRUE(advanced) << advanced.error().message;
      is_done = *advanced;
      std::this_thread::yield();
    }
    lives.push_back((*handshake)->take());
  }
  // Rank 2 comes last, and meets nobody behind rank 1's port but still completes rank 0.
  Self self{.keys = keys_of(1), .id = {Role::kTrainer, 2}, .incarnation = 1, .job_tag = kJob};
  auto handshake =
      Handshake::call(self, {Role::kTrainer, 0}, call(ranks.endpoints[0]), SteadyClock().now());
  ASSERT_TRUE(handshake);
  for (bool is_done = false; !is_done; std::this_thread::yield()) {
    const auto advanced = (*handshake)->advance(SteadyClock().now());
    ASSERT_TRUE(advanced) << advanced.error().message;
    is_done = *advanced;
  }
  rank0.join();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ((*first)[1]->ends().peer_incarnation, 5U);
}

TEST(Mesh, Trap20ATakenPortIsNamed) {
  const auto holder = listen({"127.0.0.1", 0});
  ASSERT_TRUE(holder);
  const std::uint16_t port = *port_of(*holder);
  const auto second = listen({"127.0.0.1", port});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kResource);
  EXPECT_NE(second.error().message.find("127.0.0.1:" + std::to_string(port)), std::string::npos);
  EXPECT_NE(second.error().hint.find("another process holds the port"), std::string::npos);
}

}  // namespace
}  // namespace paddle::net::peer
