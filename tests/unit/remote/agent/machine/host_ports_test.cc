#include <arpa/inet.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "remote/agent/machine/host.h"

namespace paddle::agent {
namespace {

wire::agent::PortsRequest request(std::uint32_t first, std::uint32_t count, bool claim = false) {
  wire::agent::PortsRequest wanted;
  wanted.set_address("127.0.0.1");
  wanted.set_first(first);
  wanted.set_count(count);
  wanted.set_claim(claim);
  return wanted;
}

Result<bool> never(std::uint32_t port) {
  ADD_FAILURE() << "nobody asked to claim " << port;
  return false;
}

TEST(Ports, RangesThatLeaveThePortsAreRefused) {
  EXPECT_FALSE(check_ports(request(0, 1), never));
  EXPECT_FALSE(check_ports(request(65535, 2), never));
  EXPECT_FALSE(check_ports(request(1024, kPortsMax + 1), never));
  EXPECT_TRUE(check_ports(request(65535, 1), never));
  wire::agent::PortsRequest name = request(7164, 1);
  name.set_address("localhost");
  EXPECT_FALSE(check_ports(name, never)) << "an address is needed";
}

TEST(Ports, AClaimedPortIsNeitherFreeNorTried) {
  in_addr here{};
  ::inet_pton(AF_INET, "127.0.0.1", &here);
  UniqueFd listener = listen_at(here, 0);
  ASSERT_TRUE(listener);
  sockaddr_in name{};
  socklen_t size = sizeof name;
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  const std::uint32_t port = ntohs(name.sin_port);
  const auto taken = check_ports(request(port, 1), never);
  ASSERT_TRUE(taken);
  EXPECT_FALSE(taken->ports(0).free());
  EXPECT_NE(taken->ports(0).owner().find("(remote_test"), std::string::npos)
      << taken->ports(0).owner();
  const auto claimed =
      check_ports(request(port, 1, true), [](std::uint32_t) -> Result<bool> { return false; });
  ASSERT_TRUE(claimed);
  EXPECT_TRUE(claimed->ports(0).claimed());
  EXPECT_FALSE(claimed->ports(0).free());
  EXPECT_EQ(claimed->ports(0).owner(), "") << "the other session has it, whoever listens";
}

}  // namespace
}  // namespace paddle::agent
