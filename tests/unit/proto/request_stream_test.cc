#include <unistd.h>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"

namespace paddle {
namespace {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

class RequestStreamTest : public testing::Test {
 protected:
  RequestStreamTest() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    input_ = UniqueFd(ends[0]);
    output_ = UniqueFd(ends[1]);
    EXPECT_TRUE(set_nonblocking(input_.get()));
  }
  void send(AgentKind kind) {
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(kind);
    header.sender = {Role::kController, 0};
    ASSERT_TRUE(write_frame(output_.get(), header, {}, {}, TimePoint::max()));
  }

  UniqueFd input_, output_;
};

constexpr Duration kLong = std::chrono::minutes(10);
constexpr Duration kShort = std::chrono::milliseconds(50);

TEST_F(RequestStreamTest, PingsAreNoRequests) {
  RequestStream requests(input_.get(), kLong);
  for (const AgentKind kind : {AGENT_PING, AGENT_FACTS, AGENT_PING, AGENT_PING, AGENT_LIST})
    send(kind);
  EXPECT_EQ(requests.next()->header.type, AGENT_FACTS);
  EXPECT_EQ(requests.next()->header.type, AGENT_LIST);
  output_.reset();
  EXPECT_EQ(requests.next().error().code, Errc::kUnreachable);
}

TEST_F(RequestStreamTest, WorkGoesOnOverPingsAndEndsWithARequestThatStays) {
  RequestStream requests(input_.get(), kLong);
  EXPECT_FALSE(requests.has_next());
  send(AGENT_PING);
  send(AGENT_PING);
  EXPECT_FALSE(requests.has_next());
  send(AGENT_RUN_END);
  EXPECT_TRUE(requests.has_next());
  EXPECT_TRUE(requests.has_next()) << "it was not taken";
  EXPECT_EQ(requests.next()->header.type, AGENT_RUN_END);
  EXPECT_FALSE(requests.has_next());
  output_.reset();
  EXPECT_TRUE(requests.has_next());
  EXPECT_EQ(requests.next().error().code, Errc::kUnreachable);
}

TEST_F(RequestStreamTest, ASilentControllerHasGone) {
  RequestStream idle(input_.get(), kShort);
  EXPECT_EQ(idle.next().error().code, Errc::kUnreachable);
  RequestStream working(input_.get(), kShort);
  while (!working.has_next()) ::usleep(1000);
  EXPECT_EQ(working.next().error().code, Errc::kUnreachable);
}

TEST_F(RequestStreamTest, EveryFramePutsTheEndOff) {
  RequestStream requests(input_.get(), kLong);
  const TimePoint before = requests.gone_at();
  ::usleep(1000);
  send(AGENT_PING);
  EXPECT_FALSE(requests.has_next());
  const TimePoint after_ping = requests.gone_at();
  EXPECT_GT(after_ping, before);
  ::usleep(1000);
  send(AGENT_FACTS);
  ASSERT_TRUE(requests.next());
  EXPECT_GT(requests.gone_at(), after_ping);
}

}  // namespace
}  // namespace paddle
