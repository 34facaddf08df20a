#include "engine/net/tcp.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "engine/net/frame_io.h"
#include "engine/net/session.h"
#include "tests/support/free_ports.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

// Runs every test over TCP and over shared memory.
enum class Way { kTcp, kTls, kSharedMemory };
void PrintTo(Way way, std::ostream* out) {
  *out << (way == Way::kTcp ? "tcp" : way == Way::kTls ? "tls" : "shared memory");
}

class LinkTest : public NetTest, public ::testing::WithParamInterface<Way> {
 protected:
  LinkTest() {
    shares_memory_ = GetParam() == Way::kSharedMemory;
    if (GetParam() == Way::kTls) transport_ = Transport::kAlways;
  }
};
INSTANTIATE_TEST_SUITE_P(Tcp, LinkTest, ::testing::Values(Way::kTcp));
INSTANTIATE_TEST_SUITE_P(Tls, LinkTest, ::testing::Values(Way::kTls));
INSTANTIATE_TEST_SUITE_P(SharedMemory, LinkTest, ::testing::Values(Way::kSharedMemory));

TEST_P(LinkTest, UsesSharedMemoryWhenAsked) {
  const auto link = connect_trainer(0);
  ASSERT_TRUE(link);
  const auto maps = read_file("/proc/self/maps");
  ASSERT_TRUE(maps);
  std::size_t segments = 0;  // both ends are in this process
  for (auto at = maps->find("memfd:paddle-link"); at != std::string::npos;
       at = maps->find("memfd:paddle-link", at + 1)) {
    ++segments;
  }
  EXPECT_EQ(segments, shares_memory_ ? 2U : 0U);
}

TEST_P(LinkTest, EchoesAFrameAndStampsBothIdentities) {
  const auto link = connect_trainer(7);
  ASSERT_TRUE(link);
  Frame sent = frame_of(kEchoType, "head", 100);
  sent.header.sequence = 42;
  ASSERT_TRUE(link->send(sent, soon()));
  const auto got = link->receive(soon());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->head, "head");
  EXPECT_EQ(got->tail, sent.tail);
  EXPECT_EQ(got->header.sequence, 42U);
  EXPECT_EQ(got->header.job_tag, kJob);
  EXPECT_EQ(got->header.sender, (NodeId{Role::kPserver, 3}));
  EXPECT_EQ(got->header.incarnation, 5U);
}

TEST_P(LinkTest, CarriesALargeTailBothWays) {
  const auto link = joined_trainer(0);
  ASSERT_TRUE(link);
  const Frame sent = frame_of(kEchoType, std::string(60000, 'h'), 32U << 20U);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(link->send(sent, soon()));
    const auto got = link->receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->head, sent.head);
    EXPECT_TRUE(got->tail == sent.tail);
  }
}

TEST_P(LinkTest, KeepsTheOrderOfManyFramesInFlight) {
  const auto link = connect_trainer(0);
  ASSERT_TRUE(link);
  constexpr std::uint64_t kFrames = 2000;
  for (std::uint64_t i = 0; i < kFrames; ++i) {
    Frame frame = frame_of(kEchoType, "x", i % 300);
    frame.header.sequence = i;
    ASSERT_TRUE(link->send(frame, soon()));
  }
  for (std::uint64_t i = 0; i < kFrames; ++i) {
    const auto got = link->receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(got->header.sequence, i);
    ASSERT_EQ(got->tail.size(), i % 300);
  }
}

TEST_P(LinkTest, ServesManyPeers) {
  std::vector<std::unique_ptr<Link>> links;
  for (std::uint32_t i = 0; i < 64; ++i) links.push_back(connect_trainer(i));
  for (std::uint32_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(links[i]->send(frame_of(kEchoType, std::to_string(i), 10), soon()));
  }
  for (std::uint32_t i = 0; i < 64; ++i) {
    const auto got = links[i]->receive(soon());
    ASSERT_TRUE(got);
    EXPECT_EQ(got->head, std::to_string(i));
  }
  links.clear();
  wait_disconnects(64);
}

TEST_P(LinkTest, DeliversTheLastReplyBeforeClosing) {
  const auto link = joined_trainer(0);
  ASSERT_TRUE(link);
  ASSERT_TRUE(link->send(frame_of(kByeType, "bye", 8U << 20U), soon()));
  const auto got = link->receive(soon());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->head, "bye");
  const auto end = link->receive(soon());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
  EXPECT_NE(end.error().message.find("closed by peer"), std::string::npos);
  EXPECT_TRUE(link->is_closed());
}

// A trainer that fails says why in its last frame, while replies that it will not read are on their
// way to it.
TEST_P(LinkTest, TheLastFrameOfAPeerThatReadsNoRepliesArrives) {
  constexpr int kPeers = 60;
  for (int peer = 0; peer < kPeers; ++peer) {
    auto link = joined_trainer(static_cast<std::uint32_t>(peer));
    ASSERT_TRUE(link);
    Frame flood = frame_of(kFloodType, "", 0);
    flood.header.step = 8;
    flood.header.sequence = 1U << 20U;
    ASSERT_TRUE(link->send(flood, soon()));
    if (peer % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(link->send(frame_of(kEchoType, "last", 0), soon()));
    link.reset();
    wait_disconnects(peer + 1);
    ASSERT_EQ(handler_.frames, 3 * (peer + 1)) << "joined, flood, last";
  }
}

TEST_P(LinkTest, IsNotClosedWhileThePeerIsThere) {
  const auto link = joined_trainer(0);
  ASSERT_TRUE(link);
  ASSERT_TRUE(link->send(frame_of(kEchoType, "head", 100), soon()));
  EXPECT_FALSE(link->is_closed());
  ASSERT_TRUE(link->receive(soon()));
  EXPECT_FALSE(link->is_closed());
}

TEST_P(LinkTest, SendsATailInPiecesAndReceivesItInPlaces) {
  const auto link = joined_trainer(0);
  ASSERT_TRUE(link);
  const Frame whole = frame_of(kEchoType, "", 9U << 20U);
  Frame sent = frame_of(kEchoType, "placed", 100);
  std::vector<ByteSpan> pieces;  // more than one write takes
  for (std::size_t at = 100, size = 7; at < whole.tail.size(); at += pieces.back().size()) {
    size += size / 20 + 1;
    pieces.push_back(ByteSpan(whole.tail).subspan(at, std::min(whole.tail.size() - at, size)));
  }
  ASSERT_GT(pieces.size(), kGatherPartsMax);
  ASSERT_TRUE(link->send(std::move(sent), pieces, soon()));
  Bytes to(whole.tail.size());
  const std::span<std::byte> all(to);
  const auto got = link->receive(soon(), [&](const FrameHeader&, std::string_view, std::size_t) {
    return std::vector<std::span<std::byte>>{all.first(77), all.subspan(77)};
  });
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->head, "placed");
  EXPECT_TRUE(to == whole.tail);
}

// The rest of the tail must not be written to places that the caller has given up.
TEST_P(LinkTest, ADeadlineWithinAPlacedTailEndsTheLink) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const UniqueFd owner(listener);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread half([&] {
    const UniqueFd peer(::accept(listener, nullptr, nullptr));
    const JobKeys keys = keys_of(1);
    ServerSession session({keys, kServer, kJob, 9}, Nonce{}, in({}));
    FrameReader reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax);
    const auto stream = make_socket_stream(peer.get());  // blocking: the client is honest
    while (!session.proven()) {
      auto frame = reader.next();
      ASSERT_TRUE(frame);
      if (!*frame) {
        reader.commit(*stream->read_some(reader.space()));
        continue;
      }
      const auto answer = session.on_frame(in({}), **frame);
      ASSERT_TRUE(answer);
      ASSERT_TRUE(write_all(peer.get(), encode_header(*answer), soon()));
      ASSERT_TRUE(write_all(peer.get(), answer->tail, soon()));
    }
    const Frame frame = frame_of(kEchoType, "", 1000);
    ASSERT_TRUE(write_all(peer.get(), encode_header(frame), soon()));
    ASSERT_TRUE(write_all(peer.get(), ByteSpan(frame.tail).first(500), soon()));
    std::byte end{};
    while (::recv(peer.get(), &end, 1, 0) > 0) {  // until the client has gone
    }
  });
  ClientOptions options = client(0);
  options.endpoint.port = ntohs(address.sin_port);
  options.transport = Transport::kClear;  // as this server of one session is
  options.shares_memory = false;
  auto link = connect(options, soon());
  ASSERT_TRUE(link) << link.error().message;
  Bytes to(1000);
  const TailPlace place = [&](const FrameHeader&, std::string_view, std::size_t) {
    return std::vector<std::span<std::byte>>{to};
  };
  std::string why;
  for (int i = 0; i < 100 && why.empty(); ++i) {
    const auto late = (*link)->receive(in(std::chrono::milliseconds(20)), place);
    ASSERT_FALSE(late);
    if (!(*link)->send(frame_of(kEchoType, "", 0), soon())) why = late.error().message;
  }
  EXPECT_NE(why.find("deadline passed"), std::string::npos);
  link->reset();
  half.join();
}

TEST_P(LinkTest, TicksTheHandler) {
  for (int seen = handler_.ticks; seen < 2; seen = handler_.ticks) handler_.ticks.wait(seen);
}

TEST_P(LinkTest, ADeadlineInReceiveLeavesTheLinkUsable) {
  const auto link = connect_trainer(0);
  ASSERT_TRUE(link);
  const auto none = link->receive(in(std::chrono::milliseconds(1)));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUnreachable);
  ASSERT_TRUE(link->send(frame_of(kEchoType, "later", 0), soon()));
  const auto got = link->receive(soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->head, "later");
}

TEST_P(LinkTest, RefusesAnotherSecretOrJobNamingThePeer) {
  ClientOptions other = client(0);
  other.keys = keys_of(2);
  const auto secret = connect(other, soon());
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().code, Errc::kAuth);
  const std::string peer = "127.0.0.1:" + std::to_string(server_->port());
  const bool is_sealed = GetParam() == Way::kTls;  // then TLS finds it out first
  EXPECT_EQ(secret.error().message, peer + (is_sealed ? ": it has other keys, or serves another job"
                                                      : ": it did not prove the job's key"));

  other = client(0);
  other.job_tag = kJob + 1;
  const auto job = connect(other, soon());
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, Errc::kAuth);
  EXPECT_EQ(job.error().message, peer + (is_sealed ? ": it has other keys, or serves another job"
                                                   : ": refused: it serves another job"));

  other = client(0);
  other.server.index = 4;
  const auto server = connect(other, soon());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Errc::kAuth);
  stop();
  EXPECT_EQ(handler_.frames, 0);
  EXPECT_EQ(handler_.disconnects, 0);
}

TEST_P(LinkTest, NamesATakenPort) {
  EchoHandler handler;
  const auto second = TcpServer::listen(
      {{"127.0.0.1", server_->port()}, keys_of(1), {Role::kPserver, 0}, kJob, 1}, handler);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kResource);
  EXPECT_EQ(second.error().message,
            "bind 127.0.0.1:" + std::to_string(server_->port()) + ": Address already in use");
  EXPECT_FALSE(second.error().hint.empty());
}

TEST_P(LinkTest, Trap16ConnectFailsAtItsDeadlineWhenNobodyListens) {
  ClientOptions options = client(0);
  options.endpoint.port = test::free_ports(1);
  const UniqueFd holder = test::bind_to(options.endpoint.port);  // no other test may listen there
  ASSERT_TRUE(holder);
  const auto link = connect(options, in(std::chrono::seconds(1)));
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::kUnreachable);
  EXPECT_NE(link.error().message.find("Connection refused"), std::string::npos);
}

// A server of another kind is named and left at once; only what may pass is tried again.
TEST_F(NetTest, Trap16AServerOfAnotherKindIsNamedAndNotTriedAgain) {
  ClientOptions options = client(0);
  options.endpoint.port = static_cast<std::uint16_t>(test::free_ports(1));
  const UniqueFd listener = test::listen_on(options.endpoint.port);
  ASSERT_TRUE(listener);
  std::thread stranger([&] {
    const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string text = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" +
                             std::string(kFrameHeaderBytes, ' ');
    EXPECT_TRUE(write_all(peer.get(), as_bytes(text), soon()));
  });
  const auto link = connect(options, soon());
  stranger.join();
  ASSERT_FALSE(link);
  EXPECT_NE(link.error().message.find("not a paddle frame"), std::string::npos)
      << link.error().message;
}

TEST_P(LinkTest, ConnectWaitsForAServerThatIsNotUpYet) {
  const ClientOptions options = client(0);
  const Endpoint endpoint = options.endpoint;
  stop();
  server_.reset();
  std::thread late([&] {
    const auto refused = connect(options, in(std::chrono::milliseconds(60)));
    EXPECT_FALSE(refused);
    auto server =
        TcpServer::listen({endpoint, keys_of(1), kServer, kJob, 10, transport_}, handler_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->run();
  });
  const auto link = connect(options, soon());
  ASSERT_TRUE(link) << link.error().message;
  ASSERT_TRUE((*link)->send(frame_of(kEchoType, "up", 0), soon()));
  EXPECT_TRUE((*link)->receive(soon()));
  server_->stop();
  late.join();
}

TEST_P(LinkTest, AStoppedServerEndsItsLinks) {
  const auto link = connect_trainer(0);
  ASSERT_TRUE(link);
  stop();
  const auto got = link->receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kUnreachable);
}

TEST_P(LinkTest, DropsAPeerThatDoesNotReadItsReplies) {
  const auto link = connect_trainer(0);
  ASSERT_TRUE(link);
  Frame flood = frame_of(kFloodType, "", 0);
  flood.header.step = 5;  // 5 x 60 MiB is over kOutboundBytesMax
  flood.header.sequence = 60U << 20U;
  ASSERT_TRUE(link->send(flood, soon()));
  wait_disconnects(1);
  const auto other = connect_trainer(1);
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->send(frame_of(kEchoType, "still here", 0), soon()));
  EXPECT_TRUE(other->receive(soon()));
}

}  // namespace
}  // namespace paddle::net
