#include "engine/net/acceptor.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace paddle::net {
namespace {

using asio::ip::make_address;

CallerSource source(const asio::ip::address& address) {
  return source_of(asio::ip::tcp::endpoint(address, 0).data());
}

TEST(AcceptLimiter, AHostWithManyIPv6AddressesIsOne) {
  AcceptLimiter limiter;
  const TimePoint now{};
  asio::ip::address_v6::bytes_type bytes = asio::ip::make_address_v6("2001:db8::").to_bytes();
  std::size_t allowed = 0;
  for (std::uint8_t host = 0; host < 200; ++host) {
    bytes.back() = host;
    allowed += limiter.allows(source(asio::ip::address_v6(bytes)), now) ? 1 : 0;
  }
  EXPECT_EQ(allowed, kAcceptsPerTickAndSource);
  EXPECT_TRUE(limiter.allows(source(make_address("2001:db8:0:1::1")), now));
  EXPECT_TRUE(limiter.allows(source(make_address("10.0.0.1")), now));
}

TEST(AcceptLimiter, AtMostSoManyAreAcceptedInATick) {
  AcceptLimiter limiter;
  const TimePoint now{};
  for (std::uint32_t i = 0; i < kAcceptsPerTick; ++i) {
    EXPECT_EQ(limiter.next(now), now);
    EXPECT_TRUE(limiter.allows(source(asio::ip::address_v4(0x0a000000U + i)), now));
  }
  EXPECT_GT(limiter.next(now), now);
  EXPECT_EQ(limiter.next(now + std::chrono::seconds(1)), now + std::chrono::seconds(1));
}

// A listener on loopback, and a port's thread that is busy: it takes no connection.
TEST(AcceptorTest, FewConnectionsWaitForABusyPort) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), name, size), 0);
  ASSERT_EQ(::listen(listener.get(), 512), 0);
  ASSERT_EQ(::getsockname(listener.get(), name, &size), 0);

  Acceptor acceptor;
  ASSERT_TRUE(acceptor.open());
  std::vector<UniqueFd> accepted;
  std::atomic<std::size_t> count = 0;
  acceptor.start(listener.get(), [&](UniqueFd socket, const auto& /*from*/) {
    accepted.push_back(std::move(socket));
    ++count;
    count.notify_all();
  });
  // 127.0.0.0/8 are as many sources as it takes to be let in.
  std::vector<UniqueFd> clients;
  for (std::uint32_t i = 0; i < kAcceptedWaitingMax + 40; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in self{};
    self.sin_family = AF_INET;
    self.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i);
    ASSERT_EQ(::bind(clients.back().get(), reinterpret_cast<sockaddr*>(&self), sizeof self), 0);
    ASSERT_EQ(::connect(clients.back().get(), name, size), 0);
  }
  const auto wait_for = [&](std::size_t wanted) {
    for (std::size_t seen = count; seen < wanted; seen = count) count.wait(seen);
  };
  wait_for(kAcceptedWaitingMax);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(count, kAcceptedWaitingMax);
  for (std::size_t i = 0; i < 40; ++i) acceptor.taken();
  wait_for(kAcceptedWaitingMax + 40);
  acceptor.stop();
}

}  // namespace
}  // namespace paddle::net
