#include "remote/client/exchange.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "proto/agent_channel.h"

namespace paddle::remote {
namespace {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

constexpr Duration kArrivesWithin = std::chrono::seconds(30);

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    channel_.fd = UniqueFd(ends[0]);
    channel_.stderr_tail = [] { return std::string(); };
    agent_ = UniqueFd(ends[1]);
  }
  int next_kind() {
    const auto frame =
        read_frame(agent_.get(), kAgentPayloadBytesMax, SteadyClock().now() + kArrivesWithin);
    return frame ? frame->header.type : -1;
  }

  Channel channel_;
  UniqueFd agent_;
};

TEST_F(ExchangeTest, ASignalIsNoReply) {
  const Exchange exchange("n", std::move(channel_));
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t caller = ::pthread_self();
  std::atomic<bool> done = false;
  std::jthread signals([&] {
    while (!done) {
      ::pthread_kill(caller, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(exchange.wait(std::chrono::seconds(30)));
  done = true;
  signals.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  agent_.reset();
  EXPECT_TRUE(exchange.wait(kArrivesWithin)) << "but the end is one";
}

TEST_F(ExchangeTest, AnIdleOneTellsTheAgentAgainAndAgainThatItIsThere) {
  const Exchange exchange("n", std::move(channel_), std::chrono::milliseconds(10));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_kind(), AGENT_PING);
}

TEST_F(ExchangeTest, PingsStandBetweenRequestsAndNeverWithinOne) {
  Exchange exchange("n", std::move(channel_), std::chrono::microseconds(10));
  const std::string tail(300'000, 'x');  // more than the socket takes at once
  std::jthread agent([&] {
    int requests = 0;
    while (requests < 50) {
      const int kind = next_kind();
      ASSERT_TRUE(kind == AGENT_PING || kind == AGENT_PUT) << kind;
      requests += kind == AGENT_PUT;
    }
  });
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(exchange.send(AGENT_PUT, Put(), as_bytes(tail), kArrivesWithin));
}

TEST_F(ExchangeTest, AnAgentThatReadsNothingHoldsNobody) {
  {
    const Exchange exchange("n", std::move(channel_), std::chrono::microseconds(10));
    // Until the socket is full of pings.
    for (int bytes = 0, before = -1; bytes != before; ::usleep(50'000)) {
      before = bytes;
      ::ioctl(agent_.get(), FIONREAD, &bytes);
    }
  }
  int kind = AGENT_PING;
  while (kind == AGENT_PING) kind = next_kind();
  EXPECT_EQ(kind, -1) << "whole pings, and then the end";
}

}  // namespace
}  // namespace paddle::remote
