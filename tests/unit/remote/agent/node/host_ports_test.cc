#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include <gtest/gtest.h>

#include "remote/agent/node/host.h"

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

Result<std::string> never(std::uint32_t port) {
  ADD_FAILURE() << "nobody asked to claim " << port;
  return std::string();
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
  UniqueFd listener = listen_at(*parse_ip("127.0.0.1", 0));
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
  const auto claimed = check_ports(request(port, 1, true), [](std::uint32_t) {
    return Result<std::string>("paddlectl-agent, pid 12");
  });
  ASSERT_TRUE(claimed);
  EXPECT_TRUE(claimed->ports(0).claimed());
  EXPECT_FALSE(claimed->ports(0).free());
  EXPECT_EQ(claimed->ports(0).owner(), "paddlectl-agent, pid 12")
      << "the other session has it, whoever listens";
}

std::uint32_t port_of(const UniqueFd& listener) {
  IpEndpoint name;
  name.size = sizeof name.storage;
  ::getsockname(listener.get(), name.data(), &name.size);
  return name.port();
}

// Another process that listens on an address until this object ends.
class Listener {
 public:
  explicit Listener(const char* address) {
    std::array<int, 2> to_child{}, to_parent{};
    EXPECT_EQ(::pipe(to_child.data()) | ::pipe(to_parent.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to_child[1]);
      const UniqueFd listener = listen_at(*parse_ip(address, 0));
      const std::uint32_t port = listener ? port_of(listener) : 0;
      char none = 0;
      const bool told = ::write(to_parent[1], &port, sizeof port) == sizeof port;
      ::_exit(told && ::read(to_child[0], &none, 1) == 0 ? 0 : 1);
    }
    ::close(to_child[0]);
    ::close(to_parent[1]);
    incarnation_ = UniqueFd(to_child[1]);
    const UniqueFd told(to_parent[0]);
    EXPECT_EQ(::read(told.get(), &port_, sizeof port_), long{sizeof port_});
  }
  ~Listener() {
    incarnation_ = UniqueFd();
    ::waitpid(pid_, nullptr, 0);
  }
  std::uint32_t port() const { return port_; }
  int pid() const { return pid_; }

 private:
  int pid_ = 0;
  std::uint32_t port_ = 0;
  UniqueFd incarnation_;
};

std::string owner_at(const char* address, std::uint32_t port) {
  wire::agent::PortsRequest wanted = request(port, 1);
  wanted.set_address(address);
  const auto reply = check_ports(wanted, never);
  if (!reply) return reply.error().message;
  return reply->ports(0).free() ? "free" : reply->ports(0).owner();
}

std::string owner_text(int pid) {
  return "pid " + std::to_string(pid) + " (";
}

TEST(Ports, AnOwnerListensOnTheAddressInQuestion) {
  const Listener other("127.0.0.3");
  const UniqueFd ours = listen_at(*parse_ip("127.0.0.2", other.port()));
  ASSERT_TRUE(ours);
  EXPECT_TRUE(owner_at("127.0.0.2", other.port()).starts_with(owner_text(::getpid())));
  EXPECT_TRUE(owner_at("127.0.0.3", other.port()).starts_with(owner_text(other.pid())));
  EXPECT_EQ(owner_at("127.0.0.4", other.port()), "free");
}

// Callers are counted by address: those of IPv6 must not be taken for one.
TEST(Ports, TheTextOfAnAddressNamesItAloneInBothFamilies) {
  for (const char* const address : {"127.0.0.1", "10.0.0.7", "::1", "2001:db8::7", "fe80::1"}) {
    for (const std::uint32_t port : {1U, 7164U})
      EXPECT_EQ(address_text(parse_ip(address, port)->data()), address);
  }
  EXPECT_EQ(address_text(nullptr), "");
  EXPECT_EQ(address_text(IpEndpoint().data()), "");
}

TEST(Ports, AnOwnerMayListenOnEveryAddress) {
  const Listener other("0.0.0.0");
  EXPECT_TRUE(owner_at("127.0.0.3", other.port()).starts_with(owner_text(other.pid())));
}

TEST(Ports, AnAddressOfIPv6HasPortsToo) {
  if (!listen_at(*parse_ip("::1", 0))) GTEST_SKIP() << "no IPv6 here";
  const Listener other("::1");
  EXPECT_TRUE(owner_at("::1", other.port()).starts_with(owner_text(other.pid())));
  EXPECT_EQ(owner_at("127.0.0.1", other.port()), "free");
  EXPECT_NE(owner_at("2001:db8::1", 7164).find("is not an address of this node"),
            std::string::npos);
  const Listener all("::");
  EXPECT_TRUE(owner_at("::1", all.port()).starts_with(owner_text(all.pid())));
  for (const char* none : {"", "::g", "fe80::1%lo", "[::1]", "10.0.0", "localhost"}) {
    EXPECT_FALSE(parse_ip(none, 1)) << none;
  }
}

// A socket of IPv6 takes connections of both families by default.
TEST(Ports, AnOwnerMayListenByIpv6) {
  for (const char* const at : {"::", "::ffff:127.0.0.3"}) {
    const UniqueFd listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener) GTEST_SKIP() << "no IPv6 here";
    const int off = 0;
    ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    ASSERT_EQ(::inet_pton(AF_INET6, at, &name.sin6_addr), 1);
    socklen_t size = sizeof name;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    const std::uint32_t port = ntohs(name.sin6_port);
    EXPECT_TRUE(owner_at("127.0.0.3", port).starts_with(owner_text(::getpid()))) << at;
  }
}

}  // namespace
}  // namespace paddle::agent
