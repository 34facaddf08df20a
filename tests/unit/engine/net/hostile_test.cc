// Peers that do not keep to the protocol, over real sockets.
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "engine/net/session.h"
#include "engine/net/shared_segment.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

class HostileTest : public NetTest {
 protected:
  // `from`: the last byte of our own address, 127.0.0.`from`.
  UniqueFd raw(std::uint32_t from = 1) const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffU) | from);
    const auto* self = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(fd.get(), self, sizeof address), 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(server_->port());
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::connect(fd.get(), to, sizeof address), 0);
    return fd;
  }
  static void put(const UniqueFd& fd, const Frame& frame) {
    EXPECT_TRUE(write_all(fd.get(), encode_header(frame), soon()));
    EXPECT_TRUE(write_all(fd.get(), frame.tail, soon()));
  }
  static Result<Frame> get(const UniqueFd& fd) {
    FrameHeaderBytes header;
    PADDLE_TRY_STATUS(read_exact(fd.get(), header, soon()));
    PADDLE_TRY(const DecodedHeader decoded, decode_header(header));
    Frame frame{decoded.header, std::string(decoded.head_bytes, 0), Bytes(decoded.tail_bytes)};
    PADDLE_TRY_STATUS(read_exact(fd.get(), frame.tail, soon()));
    return frame;
  }
  // The server has ended this connection: end of stream or a reset, not a deadline.
  static void expect_closed(const UniqueFd& fd) {
    std::array<std::byte, 1> byte;
    const auto end = read_exact(fd.get(), byte, soon());
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().message.find("deadline"), std::string::npos) << end.error().message;
  }
  UniqueFd proven(std::uint32_t trainer) const {
    UniqueFd fd = raw();
    const NodeId self{Role::kTrainer, trainer};
    ClientSession session({*keys_of(1).pair(self, kServer), self, 5, kServer, kJob}, *nonce());
    put(fd, session.hello());
    put(fd, **session.on_frame(*get(fd)));
    EXPECT_TRUE(session.on_frame(*get(fd)));
    EXPECT_TRUE(session.established());
    return fd;
  }
  static std::optional<Nonce> nonce() { return Nonce{}; }

  Frame good(std::uint32_t trainer) const {
    Frame frame;
    frame.header = {
        .type = kEchoType, .job_tag = kJob, .sender = {Role::kTrainer, trainer}, .incarnation = 5};
    return frame;
  }
};

TEST_F(HostileTest, AnUnprovenFrameNeverReachesTheHandler) {
  const UniqueFd fd = raw();
  put(fd, good(0));
  expect_closed(fd);
  stop();
  EXPECT_EQ(handler_.frames, 0);
  EXPECT_EQ(handler_.disconnects, 0);
}

TEST_F(HostileTest, GarbageAndOversizedFramesClose) {
  const UniqueFd garbage = raw();
  const std::string text(64, 'G');
  ASSERT_TRUE(write_all(garbage.get(), as_bytes(text), soon()));
  expect_closed(garbage);
  const UniqueFd big = raw();
  Frame hello = good(0);
  hello.header.type = kHello;
  hello.tail.resize(kUnprovenPayloadBytesMax + 1);
  ASSERT_TRUE(write_all(big.get(), encode_header(hello), soon()));
  expect_closed(big);
}

TEST_F(HostileTest, AWrongProofIsRefusedThenClosed) {
  const UniqueFd fd = raw();
  Frame hello = good(0);
  hello.header.type = kHello;
  hello.tail.resize(kNonceBytes);
  put(fd, hello);
  ASSERT_TRUE(get(fd));
  hello.header.type = kProof;
  put(fd, hello);
  const auto refused = get(fd);
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->header.type, kRefused);
  EXPECT_EQ(refused->tail.at(0), static_cast<std::byte>(Refusal::kBadProof));
  expect_closed(fd);
}

TEST_F(HostileTest, ASlowPeerIsClosedAtTheDeadlineAndHarmsNobody) {
  const UniqueFd silent = raw();
  const UniqueFd slow = raw();
  const std::string part(10, 'P');
  ASSERT_TRUE(write_all(slow.get(), as_bytes(part), soon()));
  const auto link = connect_trainer(1);
  ASSERT_TRUE(link);
  ASSERT_TRUE(link->send(frame_of(kEchoType, "on", 0), soon()));
  EXPECT_TRUE(link->receive(soon()));
  expect_closed(silent);
  expect_closed(slow);
  ASSERT_TRUE(link->send(frame_of(kEchoType, "still", 0), soon()));
  EXPECT_TRUE(link->receive(soon()));
}

// Loopback's addresses are each a source of their own; one of them may open 32 in a tick.
TEST_F(HostileTest, AFloodOfUnprovenPeersEvictsTheOldestAndLetsHonestOnesIn) {
  const UniqueFd honest = raw(/*from=*/1);
  std::vector<UniqueFd> flood;
  for (std::uint32_t i = 0; i < kUnprovenConnectionsMax + 24; ++i) flood.push_back(raw(2 + i % 10));
  expect_closed(flood.front());
  // The first of all is there yet: its source has no other.
  Frame hello = good(0);
  hello.header.type = kHello;
  hello.tail.resize(kNonceBytes);
  put(honest, hello);
  const auto challenge = get(honest);
  ASSERT_TRUE(challenge) << challenge.error().message;
  EXPECT_EQ(challenge->header.type, kChallenge);
  EXPECT_TRUE(connect_trainer(1));
}

TEST_F(HostileTest, ATrainerHasTwoConnectionsAtMostAndTheOneInUseStays) {
  const UniqueFd used = proven(1);
  put(used, good(1));
  ASSERT_TRUE(get(used));
  const UniqueFd other = proven(2);
  const UniqueFd second = proven(1);
  const UniqueFd third = proven(1);
  expect_closed(second);
  const UniqueFd fourth = proven(1);
  expect_closed(third);
  for (const UniqueFd* const fd : {&used, &fourth}) {
    put(*fd, good(1));
    EXPECT_TRUE(get(*fd));
  }
  put(other, good(2));
  EXPECT_TRUE(get(other));
}

TEST_F(HostileTest, OfTwoThatAreInUseANewcomerEndsTheOlder) {
  const UniqueFd first = proven(1);
  const UniqueFd second = proven(1);
  for (const UniqueFd* const fd : {&first, &second}) {
    put(*fd, good(1));
    ASSERT_TRUE(get(*fd));
  }
  const UniqueFd third = proven(1);
  expect_closed(first);
  put(second, good(1));
  EXPECT_TRUE(get(second));
}

// Four MiB: the parameter set that a Join carries.
TEST_F(HostileTest, AFrameThatIsLongerThanAJoinIsRefusedBeforeTheFirst) {
  Frame big = good(1);
  big.tail.resize((4U << 20U) + kFrameHeadBytesMax + 1);
  const UniqueFd early = proven(1);
  ASSERT_TRUE(write_all(early.get(), encode_header(big), soon()));
  expect_closed(early);
  const UniqueFd joined = proven(1);
  put(joined, good(1));
  ASSERT_TRUE(get(joined));
  put(joined, big);
  const auto echo = get(joined);
  ASSERT_TRUE(echo) << echo.error().message;
  EXPECT_EQ(echo->tail.size(), big.tail.size());
}

TEST_F(HostileTest, AProvenPeerCannotSpeakForAnother) {
  std::vector<Frame> forged(4, good(1));
  forged[0].header.sender.index = 2;
  forged[1].header.job_tag = kJob + 1;
  forged[2].header.incarnation = 6;
  forged[3].header.type = kProof;
  for (const Frame& frame : forged) {
    const UniqueFd fd = proven(1);
    put(fd, good(1));
    ASSERT_TRUE(get(fd));
    put(fd, frame);
    expect_closed(fd);
  }
  wait_disconnects(4);
  stop();
  EXPECT_EQ(handler_.frames, 4);
}

TEST_F(HostileTest, AnOfferOfOtherMemoryIsDeclinedAndTheSocketGoesOn) {
  const UniqueFd fd = proven(1);
  Frame offer = good(1);
  offer.header.type = kShare;
  offer.tail.resize(40);
  std::fill(offer.tail.begin(), offer.tail.end(), std::byte{0x7f});
  put(fd, offer);
  const auto answer = get(fd);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.type, kShared);
  EXPECT_EQ(answer->tail.at(0), std::byte{0});
  put(fd, good(1));
  const auto echo = get(fd);
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->header.type, kEchoType);
  put(fd, offer);  // too late now
  expect_closed(fd);
}

TEST_F(HostileTest, APeerThatLiesInSharedMemoryIsClosedAndHarmsNobody) {
  const auto link = connect_trainer(2);
  ASSERT_TRUE(link);
  const UniqueFd fd = proven(1);
  const auto segment = SharedSegment::create();
  ASSERT_TRUE(segment);
  Frame offer = good(1);
  offer.header.type = kShare;
  offer.tail = segment->offer();
  put(fd, offer);
  const auto answer = get(fd);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->tail.at(0), std::byte{1});
  segment->layout().counters[0].written = kRingBytes + 1;
  const std::string bell(1, 'b');
  ASSERT_TRUE(write_all(fd.get(), as_bytes(bell), soon()));
  expect_closed(fd);
  ASSERT_TRUE(link->send(frame_of(kEchoType, "on", 0), soon()));
  EXPECT_TRUE(link->receive(soon()));
}

TEST_F(HostileTest, APeerThatGoesWithItsMemoryIsNoticed) {
  {
    const UniqueFd fd = proven(1);
    const auto segment = SharedSegment::create();
    ASSERT_TRUE(segment);
    Frame offer = good(1);
    offer.header.type = kShare;
    offer.tail = segment->offer();
    put(fd, offer);
    ASSERT_TRUE(get(fd));
  }
  wait_disconnects(1);
}

}  // namespace
}  // namespace paddle::net
