#include "remote/bootstrap.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/agent.pb.h"
#include "proto/frame_stream.h"
#include "tests/unit/remote/agent_fixture.h"

namespace paddle::remote {
namespace {

TimePoint soon() {
  return TimePoint(std::chrono::steady_clock::now()) + std::chrono::seconds(20);
}

// Answers every command with the same text, as a node with a noisy login shell does.
class ScriptedLauncher final : public Launcher {
 public:
  explicit ScriptedLauncher(std::string answer) : answer_(std::move(answer)) {}

  Result<Channel> run(const std::string& constant_command, TimePoint deadline) override {
    commands.push_back(constant_command);
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return system_error(Errc::kFailed, "socketpair");
    }
    const UniqueFd theirs(pair[1]);
    Channel channel{UniqueFd(pair[0]), nullptr, nullptr};
    PADDLE_TRY_STATUS(write_all(theirs.get(), as_bytes(answer_), deadline));
    return channel;
  }

  std::vector<std::string> commands;

 private:
  std::string answer_;
};

TEST_F(AgentTest, OtherArchitectureIsNamedBeforeAnythingIsPushed) {
  ScriptedLauncher launcher("Welcome!\r\nPADDLECTL-PROBE Linux sparc64 /root\r\n");
  const auto refused = bootstrap(launcher, node_, options_, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kVersion);
  EXPECT_TRUE(refused.error().message.starts_with("sparc64, this paddlectl carries "))
      << refused.error().message;
  EXPECT_EQ(launcher.commands.size(), 1U);
}

TEST_F(AgentTest, NoiseBeforeTheSentinelIsSkippedUpToALimit) {
  ScriptedLauncher noisy(
      "motd\n\x1b[31mPADDLECTL-AGENT\nxPADDLECTL-AGENT 9\nPADDLECTL-AGENT 7\r\nrest");
  auto channel = noisy.run("", soon());
  const auto line = skip_to_line(channel->fd.get(), "PADDLECTL-AGENT ", soon());
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(*line, "7");
  char rest[5] = {};
  EXPECT_EQ(::read(channel->fd.get(), rest, 4), 4) << "bytes after the sentinel were eaten";
  EXPECT_STREQ(rest, "rest");
  ScriptedLauncher endless(std::string(kNoiseBytesMax + 1, 'x'));
  auto flood = endless.run("", soon());
  const auto given_up = skip_to_line(flood->fd.get(), "PADDLECTL-AGENT ", soon());
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, Errc::kData);
}

TEST_F(AgentTest, CorruptFrameEndsTheAgentWithAReason) {
  auto launcher = make_local_launcher(node_);
  auto started = bootstrap(**launcher, node_, options_, soon());
  ASSERT_TRUE(started) << started.error().message;
  const int fd = started->channel.fd.get();
  ASSERT_TRUE(write_all(fd, Bytes(kFrameHeaderBytes, std::byte{0x5a}), soon()));
  const auto reply = read_frame(fd, kAgentPayloadBytesMax, soon());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->header.type, wire::agent::AGENT_ERROR);
  const auto end = read_frame(fd, kAgentPayloadBytesMax, soon());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
  started->channel.fd.reset();
}

TEST_F(AgentTest, TakenPortIsReportedWithItsOwner) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  const std::uint16_t port = ntohs(name.sin_port);
  auto agent = connect_agent();
  const auto ports = agent->check_ports("127.0.0.1", port, 1);
  ASSERT_TRUE(ports) << ports.error().message;
  ASSERT_EQ(ports->size(), 1U);
  EXPECT_FALSE(ports->at(0).free);
  EXPECT_TRUE(ports->at(0).owner.starts_with("pid " + std::to_string(::getpid()) + " ("))
      << ports->at(0).owner;
  EXPECT_TRUE(agent->check_ports("127.0.0.77", port, 1)->at(0).free) << "another address";
  EXPECT_FALSE(agent->check_ports("203.0.113.9", port, 1)) << "not ours";
}

}  // namespace
}  // namespace paddle::remote
