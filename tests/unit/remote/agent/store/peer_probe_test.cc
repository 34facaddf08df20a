// Probes on the data plane, between real agents.
#include <sys/socket.h>

#include <thread>

#include "tests/support/free_ports.h"
#include "tests/support/process.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

using test::free_ports;
using test::listen_on;

constexpr const char* kHere = "127.0.0.1";

class ProbeTest : public AgentTest {
 protected:
  std::unique_ptr<AgentClient> agent = connect_agent();
  const std::uint16_t port = free_ports(1);
  const Secret token = *Secret::generate();

  ProbeOutcome outcome() {
    const auto result = agent->probe(kHere, port, token, 1);
    EXPECT_TRUE(result) << result.error().message;
    return result ? result->outcome : ProbeOutcome::kReached;
  }
};

UniqueFd connect_to(std::uint16_t port, int more_flags = 0) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | more_flags, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  return fd;
}

TimePoint soon() {
  return TimePoint(std::chrono::steady_clock::now()) + std::chrono::seconds(30);
}

TEST_F(ProbeTest, AListenerIsReachedAndItsPortFreeAgainAfterwards) {
  ASSERT_TRUE(agent->listen_for_probes(kHere, port, token));
  for (int i = 0; i < 2; ++i) {
    const auto result = agent->probe(kHere, port, token, 1);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->outcome, ProbeOutcome::kReached) << result->detail;
    EXPECT_GT(result->bytes_per_second, 0U);
    EXPECT_GT(result->round_trip.count(), 0);
  }
  EXPECT_FALSE(listen_on(port));
  ASSERT_TRUE(agent->stop_listening());
  EXPECT_TRUE(listen_on(port));
  EXPECT_EQ(outcome(), ProbeOutcome::kRefused);
}

TEST_F(ProbeTest, TheListenerEndsWithItsClient) {
  ASSERT_TRUE(agent->listen_for_probes(kHere, port, token));
  agent.reset();
  const TimePoint end = soon();
  while (!listen_on(port) && TimePoint(std::chrono::steady_clock::now()) < end)
    std::this_thread::yield();
  EXPECT_TRUE(listen_on(port));
}

TEST_F(ProbeTest, ATakenPortAndAWrongRequestAreErrors) {
  const UniqueFd taken = listen_on(port);
  const auto listening = agent->listen_for_probes(kHere, port, token);
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().code, Errc::kResource);
  EXPECT_FALSE(agent->probe("nowhere", port, token, 1));
  EXPECT_FALSE(agent->probe(kHere, 0, token, 1));
  EXPECT_TRUE(agent->facts()) << "the agent goes on";
}

TEST_F(ProbeTest, SomebodyElsesListenerHasNoProof) {
  ASSERT_TRUE(agent->listen_for_probes(kHere, port, *Secret::generate()));
  EXPECT_EQ(outcome(), ProbeOutcome::kNoProof) << "of another check";
  ASSERT_TRUE(agent->stop_listening());
  const UniqueFd stranger = listen_on(port);
  std::jthread echo([&] {
    const UniqueFd caller(::accept(stranger.get(), nullptr, nullptr));
    std::array<std::byte, 4 + 32 + 32> said{};
    (void)write_all(caller.get(), ByteSpan(said).first(32), soon());
    if (!read_exact(caller.get(), said, soon())) return;
    (void)write_all(caller.get(), ByteSpan(said).last(32), soon());
  });
  EXPECT_EQ(outcome(), ProbeOutcome::kNoProof) << "the caller's own proof does not pass for one";
}

TEST_F(ProbeTest, NoAnswerIsATimeout) {
  const UniqueFd full = listen_on(port);
  // A queue that is full drops what comes, as a firewall does.
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(connect_to(port, SOCK_NONBLOCK));
  EXPECT_EQ(outcome(), ProbeOutcome::kTimedOut);
}

TEST_F(ProbeTest, StrangersAreClosedAndDoNotKeepOthersOut) {
  ASSERT_TRUE(agent->listen_for_probes(kHere, port, token));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connect_to(port));
  EXPECT_EQ(outcome(), ProbeOutcome::kReached);
  std::byte answer{};
  const UniqueFd liar = connect_to(port);
  const Bytes lie(4 + 32 + 32, std::byte{1});
  Bytes nonce(32);
  ASSERT_TRUE(write_all(liar.get(), lie, soon()));
  ASSERT_TRUE(read_exact(liar.get(), nonce, soon()));
  const auto closed = read_exact(liar.get(), std::span(&answer, 1), soon());
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message, "deadline passed");
  for (const UniqueFd& one : silent) {
    Status left = read_exact(one.get(), nonce, soon());
    if (left) left = read_exact(one.get(), std::span(&answer, 1), soon());
    ASSERT_FALSE(left);
    EXPECT_NE(left.error().message, "deadline passed");
  }
}

TEST_F(ProbeTest, AProcessOfNoJobIsALeftover) {
  const auto facts = agent->facts();
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->glibc().empty()) << "these tests run where there is one";
  push_script(*agent, "endless", "exec sleep 600");
  ASSERT_TRUE(agent->start(script("endless", "trainer-0")));
  auto found = agent->leftovers();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->process_count(), 0U) << "a running job is none: " << found->SerializeAsString();
  EXPECT_EQ(found->ended_jobs(), 0U);
  const test::Process orphan(
      {"/usr/bin/env", "PADDLECTL_PROCESS=" + facts->root() + ":gone/trainer-0", "sleep", "600"},
      folder_ + "/orphan.txt");
  const TimePoint end = soon();
  do {
    found = agent->leftovers();
    ASSERT_TRUE(found);
  } while (found->process_count() == 0 && TimePoint(std::chrono::steady_clock::now()) < end);
  ASSERT_EQ(found->processes_size(), 1);
  EXPECT_TRUE(found->processes(0).starts_with("pid ")) << found->processes(0);
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  found = agent->leftovers();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ended_jobs(), 1U);
}

}  // namespace
}  // namespace paddle::remote
