#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "remote/agent/session.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

constexpr Duration kAnswersWithin = std::chrono::seconds(30);

// The agent's loop in a thread, and the controller's end of its channel.
class ServeTest : public testing::Test {
 protected:
  ~ServeTest() override {
    controller_.reset();
    if (agent_.joinable()) agent_.join();
    ::signal(SIGCHLD, SIG_DFL);  // a command leaves it as an agent has it
  }
  void serve_for(Duration silence_max) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    controller_ = UniqueFd(ends[0]);
    agent_ = std::thread([this, silence_max, end = ends[1]] {
      const UniqueFd channel(end);
      const auto root = open_root(folder_.path());
      ASSERT_TRUE(root) << root.error().message;
      EXPECT_TRUE(serve(*root, channel.get(), channel.get(), silence_max));
    });
  }
  void send(AgentKind kind, const google::protobuf::MessageLite& head) {
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(kind);
    header.sender = {Role::kController, 0};
    ASSERT_TRUE(write_frame(controller_.get(), header, as_bytes(head.SerializeAsString()), {},
                            TimePoint::max()));
  }
  Result<Frame> answer() {
    return read_frame(controller_.get(), kAgentPayloadBytesMax,
                      TimePoint(std::chrono::steady_clock::now()) + kAnswersWithin);
  }
  // Runs it in a shell, whose first output is "up".
  void run_command(const std::string& command) {
    RunRequest request;
    for (const std::string& argument : {std::string("sh"), std::string("-c"), command})
      request.add_arguments(argument);
    send(AGENT_RUN, request);
    EXPECT_EQ(as_text(answer()->tail), "up\n");
  }

  test::TemporaryFolder folder_;
  UniqueFd controller_;
  std::thread agent_;
};

TEST_F(ServeTest, AnAgentWhoseControllerIsSilentEnds) {
  serve_for(std::chrono::milliseconds(50));
  EXPECT_EQ(answer().error().message, "closed by peer");
}

TEST_F(ServeTest, SoDoesOneWithACommandThatRuns) {
  serve_for(std::chrono::seconds(1));
  run_command("echo up; exec sleep 1000");
  const auto last = answer();
  ASSERT_TRUE(last) << last.error().message;
  RunReply reply;
  ASSERT_TRUE(reply.ParseFromString(last->head));
  EXPECT_EQ(reply.signal(), SIGTERM);
  EXPECT_EQ(answer().error().message, "closed by peer");
}

TEST_F(ServeTest, ACommandGoesOnOverPings) {
  serve_for(kAnswersWithin);
  const std::string go = folder_ / "go";
  run_command("echo up; while ! [ -e " + go + " ]; do sleep 0.05; done; exit 3");
  for (int i = 0; i < 5; ++i) send(AGENT_PING, CopyReply());
  for (int unread = 1; unread > 0; ::usleep(1000)) {
    ASSERT_EQ(::ioctl(controller_.get(), SIOCOUTQ, &unread), 0);
  }
  folder_.write("go", "");
  const auto last = answer();
  ASSERT_TRUE(last) << last.error().message;
  RunReply reply;
  ASSERT_TRUE(reply.ParseFromString(last->head));
  EXPECT_EQ(reply.exit_code(), 3);
  send(AGENT_FACTS, PathRequest());
  EXPECT_EQ(answer()->header.type, AGENT_FACTS) << "a ping has no answer";
}

}  // namespace
}  // namespace paddle::agent
