#include "remote/agent/process/restart_policy.h"

#include <sys/wait.h>

#include <csignal>
#include <vector>

#include <gtest/gtest.h>

namespace paddle::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kLostPeer = W_EXITCODE(4, 0);
constexpr int kKilled = W_EXITCODE(0, SIGKILL);

RestartPolicy policy(std::uint32_t restarts, bool any_exit = false) {
  wire::agent::ProcessSpec spec;
  spec.set_restarts(restarts);
  spec.set_any_exit(any_exit);
  return RestartPolicy(spec);
}

TEST(RestartPolicy, PausesDoubleUpToALimitUntilARunWasLong) {
  RestartPolicy restarts = policy(100);
  std::vector<Duration> pauses;
  for (int i = 0; i < 6; ++i) pauses.push_back(*restarts.next(kKilled, seconds(1)));
  EXPECT_EQ(pauses, (std::vector<Duration>{milliseconds(500), seconds(1), seconds(2), seconds(4),
                                           seconds(8), seconds(8)}));
  EXPECT_EQ(restarts.next(kKilled, seconds(60)), milliseconds(500)) << "the run was long";
  EXPECT_EQ(restarts.next(kKilled, seconds(59)), seconds(1));
}

TEST(RestartPolicy, OwnFailuresAreCountedOverAllRuns) {
  RestartPolicy restarts = policy(2);
  EXPECT_TRUE(restarts.next(kKilled, seconds(100)));
  EXPECT_TRUE(restarts.next(kKilled, seconds(100)));
  EXPECT_FALSE(restarts.next(kKilled, seconds(100)));
  RestartPolicy never = policy(0);
  EXPECT_FALSE(never.next(kKilled, seconds(1)));
  EXPECT_FALSE(never.next(kLostPeer, seconds(1)));
}

TEST(RestartPolicy, LostPeersAreNotOwnFailuresAndCountOnlyInARow) {
  RestartPolicy restarts = policy(1);
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(restarts.next(kLostPeer, seconds(1))) << i;
  EXPECT_TRUE(restarts.next(kKilled, seconds(1))) << "its own failure is its first";
  EXPECT_TRUE(restarts.next(kLostPeer, seconds(60))) << "a long run begins a new row";
  for (int i = 1; i < 80; ++i) ASSERT_TRUE(restarts.next(kLostPeer, seconds(1))) << i;
  EXPECT_FALSE(restarts.next(kLostPeer, seconds(1)));
}

TEST(RestartPolicy, ExitCodesAreFailuresOnlyWhereAskedForAndNeverDoneOrResumable) {
  RestartPolicy strict = policy(5);
  EXPECT_FALSE(strict.next(W_EXITCODE(1, 0), seconds(1)));
  RestartPolicy any = policy(5, true);
  EXPECT_TRUE(any.next(W_EXITCODE(1, 0), seconds(1)));
  EXPECT_FALSE(any.next(W_EXITCODE(0, 0), seconds(1)));
  EXPECT_FALSE(any.next(W_EXITCODE(75, 0), seconds(1))) << "it was stopped and can go on";
}

}  // namespace
}  // namespace paddle::agent
