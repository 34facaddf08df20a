// Servers that drop connections before a login, as sshd does when many come at once, and IPv6.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <tuple>

#include "tests/e2e/ssh_fixture.h"

namespace paddle::remote {
namespace {

// How a server ends a connection that it does not want.
enum class Drop { kClose, kReset, kSay, kSayPenalty };

// A port that drops its first callers, and then passes bytes on to a server.
class Door {
 public:
  Door(const Sshd& server, int drops, Drop way) : drops_(drops), way_(way) {
    to_ = address_of(server.address(), server.port());
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here = address_of("127.0.0.4", 0);
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size), 0);
    port_ = ntohs(here.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Door() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (std::thread& one : relays_) one.join();
  }
  std::uint16_t port() const { return port_; }
  int dropped() const { return dropped_; }

 private:
  static sockaddr_in address_of(const std::string& host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &address.sin_addr), 1);
    return address;
  }
  static void pass(int from, int to) {
    char bytes[16384];
    for (;;) {
      const ssize_t got = ::recv(from, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      if (::send(to, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) break;
    }
    ::shutdown(to, SHUT_WR);
    ::shutdown(from, SHUT_RD);
  }
  void serve() {
    for (;;) {
      UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!caller) return;
      if (dropped_ < drops_) {
        ++dropped_;
        const linger now{1, 0};
        if (way_ == Drop::kReset)
          ::setsockopt(caller.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
        const std::string_view words = way_ == Drop::kSay          ? "Exceeded MaxStartups\r\n"
                                       : way_ == Drop::kSayPenalty ? "Not allowed at this time\r\n"
                                                                   : "";
        if (!words.empty()) ::send(caller.get(), words.data(), words.size(), MSG_NOSIGNAL);
        continue;
      }
      relays_.emplace_back([this, caller = std::move(caller)] {
        const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&to_), sizeof to_) != 0)
          return;
        std::thread back([&] { pass(server.get(), caller.get()); });
        pass(caller.get(), server.get());
        back.join();
      });
    }
  }

  const int drops_;
  const Drop way_;
  sockaddr_in to_{};
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> dropped_ = 0;
  std::thread thread_;
  std::vector<std::thread> relays_;
};

class SshDoorTest : public SshLauncherTest {
 protected:
  // The key of the server, as that of another place.
  std::string known_as(const std::string& place) const {
    const std::string line = *read_file(sshd_->known_hosts());
    return place + line.substr(line.find(' '));
  }
};

TEST_F(SshDoorTest, AServerThatDropsItsFirstCallersIsTriedAgain) {
  for (const Drop way : {Drop::kClose, Drop::kReset, Drop::kSay}) {
    const Door door(*sshd_, 3, way);
    NodeSpec node = node_;
    node.host = "127.0.0.4";
    node.ssh_port = door.port();
    write(node.known_hosts, known_as(fmt::format("[127.0.0.4]:{}", door.port())));
    const auto launcher = make_ssh_launcher(node, within(seconds(30)));
    EXPECT_TRUE(launcher) << launcher.error().message;
    EXPECT_EQ(door.dropped(), 3);
  }
}

TEST_F(SshDoorTest, AServerThatDropsAllIsNamedWithWhatMayBeTheMatter) {
  const Door door(*sshd_, 1'000'000, Drop::kClose);
  node_.host = "127.0.0.4";
  node_.ssh_port = door.port();
  const auto refused = make_ssh_launcher(node_, within(seconds(1)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnreachable);
  EXPECT_NE(refused.error().message.find(fmt::format("127.0.0.4:{} closed", door.port())),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("(tried "), std::string::npos);
  EXPECT_NE(refused.error().hint.find("MaxStartups"), std::string::npos) << refused.error().hint;
  EXPECT_GE(door.dropped(), 2);
}

void expect_penalty(const Error& error) {
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_NE(error.message.find("after failed logins (PerSourcePenalties)"), std::string::npos)
      << error.message;
  EXPECT_EQ(error.message.find("tried"), std::string::npos) << error.message;
  EXPECT_EQ(error.hint.find("MaxStartups"), std::string::npos) << error.hint;
  EXPECT_NE(error.hint.find("PerSourcePenaltyExemptList"), std::string::npos) << error.hint;
}

// Each try may prolong the penalty.
TEST_F(SshDoorTest, AnAddressThatIsRefusedForATimeIsNotTriedAgain) {
  const Door door(*sshd_, 1'000'000, Drop::kSayPenalty);
  node_.host = "127.0.0.4";
  node_.ssh_port = door.port();
  expect_penalty(refusal());
  EXPECT_EQ(door.dropped(), 1);
}

TEST_F(SshDoorTest, APenaltyOfSshdIsNamed) {
  const std::vector<std::string> options = {"PerSourcePenalties=authfail:3600s min:1s"};
  if (!Sshd::start("127.0.0.3", test::SshdLogin::kKey, options))
    GTEST_SKIP() << "sshd is older than 9.8";
  restart(options);
  if (HasFatalFailure()) return;
  node_.identity = sshd_->folder() + "/other";
  ASSERT_TRUE(test::make_key(node_.identity));
  // sshd notes the failed login shortly after it has ended it.
  const TimePoint deadline = within(seconds(60));
  Error error = refusal();
  while (error.code == Errc::kAuth && SteadyClock().now() < deadline) error = refusal();
  expect_penalty(error);
}

TEST_F(SshDoorTest, ManyNodesPassABastionThatTakesFewAtATime) {
  const auto bastion =
      Sshd::start("127.0.0.3", test::SshdLogin::kKey, {"MaxStartups=4:100:4", "LogLevel=VERBOSE"});
  ASSERT_TRUE(bastion) << bastion.error().message;
  write((*bastion)->folder() + "/authorized_keys", *read_file(sshd_->identity() + ".pub"));
  write(node_.known_hosts, *read_file(node_.known_hosts) + *read_file((*bastion)->known_hosts()));
  node_.jump = fmt::format("{}:{}", (*bastion)->address(), (*bastion)->port());
  std::atomic<int> reached = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        const auto launcher = make_ssh_launcher(node_, within(seconds(50)));
        EXPECT_TRUE(launcher) << launcher.error().message;
        reached += launcher ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(reached, 16);
}

// Retries alone would pass such a bastion too, after many logins that it drops.
TEST_F(SshDoorTest, LoginsAtOneBastionTakeTurnsHoweverItIsNamed) {
  constexpr int kNodes = 32;
  // sshd notices the end of a login late, so it must take more logins than there are turns.
  const auto bastion = Sshd::start("127.0.0.3", test::SshdLogin::kKey, {"MaxStartups=16:100:16"});
  ASSERT_TRUE(bastion) << bastion.error().message;
  write((*bastion)->folder() + "/authorized_keys", *read_file(sshd_->identity() + ".pub"));
  write(node_.known_hosts, *read_file(node_.known_hosts) + *read_file((*bastion)->known_hosts()));
  const std::string jump = fmt::format("{}:{}", (*bastion)->address(), (*bastion)->port());
  const std::string config = node_.ssh_directory + "/config";
  const std::string command = fmt::format(
      "ssh -F /dev/null -p {} -i {} -o IdentitiesOnly=yes -o UserKnownHostsFile={} -W %h:%p {}",
      (*bastion)->port(), node_.identity, node_.known_hosts, (*bastion)->address());
  const std::tuple<const char*, std::string, std::string> ways[] = {
      {"jump", jump, ""},
      {"ProxyJump", "", fmt::format("Host 127.0.0.2\n  ProxyJump {}\n", jump)},
      {"ProxyCommand", "", fmt::format("Host 127.0.0.2\n  ProxyCommand {}\n", command)},
  };
  for (const auto& [way, in_cluster_file, in_config] : ways) {
    node_.jump = in_cluster_file;
    write(config, in_config);
    std::atomic<int> reached = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kNodes; ++i) {
        threads.emplace_back([&] {
          const auto launcher = make_ssh_launcher(node_, within(seconds(100)));
          EXPECT_TRUE(launcher) << launcher.error().message;
          reached += launcher ? 1 : 0;
        });
      }
    }
    EXPECT_EQ(reached, kNodes) << way;
    const std::string log = (*bastion)->log_with("Accepted publickey");
    EXPECT_EQ(log.find("drop connection"), std::string::npos) << way;
    EXPECT_EQ(log.find("MaxStartups"), std::string::npos) << way;
  }
}

TEST_F(SshDoorTest, ANodeIsReachedOverIPv6) {
  auto sshd = Sshd::start("::1");
  if (!sshd) GTEST_SKIP() << "no IPv6 on this machine's loopback";
  sshd_ = *std::move(sshd);
  node_.host = "::1";
  node_.ssh_port = sshd_->port();
  node_.identity = sshd_->identity();
  node_.known_hosts = sshd_->known_hosts();
  node_.ssh_directory = sshd_->folder();
  const auto launcher = make_ssh_launcher(node_, within(seconds(30)));
  EXPECT_TRUE(launcher) << launcher.error().message;
  write(node_.known_hosts, "");
  const auto refused = make_ssh_launcher(node_, within(seconds(30)));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(fmt::format("[::1]:{} is not in", node_.ssh_port)),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace paddle::remote
