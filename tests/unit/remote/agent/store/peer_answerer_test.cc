// Places among callers, proven and not.
#include "remote/agent/store/peer.h"
#include "tests/unit/remote/agent/store/peer_wire.h"

namespace paddle::agent {
namespace {

using test_wire::connect_to;
using test_wire::kLong;
using test_wire::read_to_end;
using test_wire::within;

constexpr Duration kShort = std::chrono::milliseconds(300);
constexpr Duration kPrompt = std::chrono::seconds(2);
constexpr std::uint32_t kPlaces = 8;

class AnswererTest : public testing::Test {
 protected:
  // Serves with `serve`, each caller for `connection_max`.
  void listen(Duration connection_max, void (*serve)(int)) {
    wire::agent::ProbeTarget at;
    at.set_address("127.0.0.1");
    auto socket = listen_for_peers(at);
    ASSERT_TRUE(socket);
    sockaddr_in name{};
    socklen_t size = sizeof name;
    ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&name), &size);
    port_ = ntohs(name.sin_port);
    const auto answer = [serve](const PeerConnection& caller, int) { serve(caller.fd.get()); };
    ASSERT_TRUE(listener_.start(*std::move(socket), token_.reveal(),
                                {"test", kLong, connection_max, -1, answer}));
  }
  // Gives back each byte.
  static void echo(int fd) {
    std::byte one{};
    while (read_exact(fd, std::span(&one, 1), within(kLong)) &&
           write_all(fd, std::span(&one, 1), within(kLong))) {
    }
  }
  static void write_for_ever(int fd) {
    const Bytes zeros(1U << 20U, std::byte{0});
    while (write_all(fd, zeros, within(kLong))) {
    }
  }

  bool prove(const UniqueFd& fd, std::uint32_t caller) {
    return static_cast<bool>(prove_to_listener(fd.get(), peer_caller_key(token_, caller), caller,
                                               "test", within(kPrompt)));
  }
  UniqueFd proven(std::uint32_t caller) {
    UniqueFd fd = connect_to(port_);
    EXPECT_TRUE(prove(fd, caller)) << caller;
    return fd;
  }
  static bool is_served(const UniqueFd& fd, Duration patience = kPrompt) {
    std::byte one{7};
    return write_all(fd.get(), std::span(&one, 1), within(patience)) &&
           read_exact(fd.get(), std::span(&one, 1), within(patience));
  }
  static bool is_ended(const UniqueFd& fd) {
    return read_to_end(fd.get(), within(kPrompt)).has_value();
  }

  const Secret token_ = *Secret::generate();
  PeerListener listener_;
  std::uint32_t port_ = 0;
};

TEST_F(AnswererTest, ANewerConnectionOfACallerEndsTheOlder) {
  listen(kLong, echo);
  const UniqueFd other = proven(2), older = proven(1);
  EXPECT_TRUE(is_served(older));
  const UniqueFd newer = proven(1);
  EXPECT_TRUE(is_ended(older));
  EXPECT_TRUE(is_served(newer));
  EXPECT_TRUE(is_served(other));
}

TEST_F(AnswererTest, OneCallerWithManyConnectionsHasOnePlace) {
  listen(kLong, echo);
  std::vector<UniqueFd> greedy, others;
  for (int i = 0; i < 20; ++i) greedy.push_back(proven(1));
  for (std::uint32_t caller = 2; caller <= kPlaces; ++caller) others.push_back(proven(caller));
  for (int i = 0; i < 20; ++i) greedy.push_back(proven(1));
  for (const UniqueFd& other : others) EXPECT_TRUE(is_served(other));
  EXPECT_TRUE(is_served(greedy.back()));
}

TEST_F(AnswererTest, CallersWithoutAPlaceGetOneInTurn) {
  listen(kShort, echo);
  std::vector<UniqueFd> stalled;
  for (std::uint32_t caller = 0; caller < 2 * kPlaces; ++caller) stalled.push_back(proven(caller));
  const UniqueFd last = proven(100);
  EXPECT_TRUE(is_served(last));
}

TEST_F(AnswererTest, ACallerThatDoesNotAskIsEndedAtTheDeadline) {
  listen(kShort, echo);
  const UniqueFd silent = proven(1);
  EXPECT_TRUE(is_ended(silent));
}

TEST_F(AnswererTest, ACallerThatDoesNotReadIsEndedAtTheDeadline) {
  listen(kShort, write_for_ever);
  const UniqueFd deaf = proven(1);
  pollfd item{deaf.get(), 0, 0};
  EXPECT_EQ(::poll(&item, 1, milliseconds_until(within(kPrompt))), 1) << "hung up";
}

TEST_F(AnswererTest, ACallerThatAsksForEverIsEndedAtTheDeadline) {
  listen(kShort, echo);
  const UniqueFd endless = proven(1);
  const TimePoint end = within(kPrompt);
  while (is_served(endless) && within({}) < end) {
  }
  EXPECT_LT(within({}), end);
}

TEST_F(AnswererTest, AFloodEvictsTheOldestOfItsAddressAndNoOthers) {
  listen(kLong, echo);
  const UniqueFd slow = connect_to(port_, 2);
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 100; ++i) flood.push_back(connect_to(port_));
  EXPECT_TRUE(is_ended(flood.front()));
  EXPECT_TRUE(prove(flood.back(), 1));
  EXPECT_TRUE(prove(slow, 2));
  EXPECT_TRUE(is_served(slow));
}

TEST_F(AnswererTest, AFloodFromManyAddressesEvictsTheOldest) {
  listen(kLong, echo);
  std::vector<UniqueFd> flood;
  for (std::uint32_t i = 0; i < 100; ++i) flood.push_back(connect_to(port_, 1 + i));
  EXPECT_TRUE(is_ended(flood.front()));
  EXPECT_TRUE(prove(flood.back(), 1));
  EXPECT_TRUE(prove(flood[50], 2)) << "there is room for it";
}

TEST_F(AnswererTest, ACallerWithoutAProofIsEndedAtTheDeadline) {
  listen(kLong, echo);
  const UniqueFd silent = connect_to(port_), slow = connect_to(port_);
  const std::byte one{};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(write_all(slow.get(), std::span(&one, 1), within(kLong)));
    EXPECT_FALSE(read_to_end(slow.get(), within(kShort))) << i;
  }
  EXPECT_TRUE(read_to_end(silent.get(), within(kLong)));
  EXPECT_TRUE(read_to_end(slow.get(), within(kPrompt))) << "bytes do not buy time";
  EXPECT_TRUE(is_served(proven(1))) << "it was not the listener's own end";
}

}  // namespace
}  // namespace paddle::agent
