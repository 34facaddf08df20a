#include "remote/agent/process/restart_policy.h"

#include <sys/wait.h>

#include <csignal>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paddle::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kLostPeer = W_EXITCODE(4, 0);
constexpr int kKilled = W_EXITCODE(0, SIGKILL);

RestartPolicy policy(std::uint32_t restarts, bool any_exit = false) {
  wire::agent::ProcessSpec spec;
  spec.set_restarts(restarts);
  spec.set_any_exit(any_exit);
  return RestartPolicy(spec);
}

// Runs that follow each other without a pause.
struct Runs {
  std::optional<Duration> next(int wait_status, Duration lived,
                               std::optional<bool> has_progressed = {},
                               std::optional<Duration> stood_still = {}) {
    const TimePoint started = std::exchange(now, now + lived);
    Run run{wait_status, started, now, has_progressed};
    if (stood_still) run.progressed_at = now - *stood_still;
    return restarts.next(run);
  }
  RestartPolicy restarts;
  TimePoint now{};
};

TEST(RestartPolicy, PausesDoubleUpToALimitUntilARunWasLong) {
  Runs runs{policy(100)};
  std::vector<Duration> pauses;
  for (int i = 0; i < 6; ++i) pauses.push_back(*runs.next(kKilled, seconds(1)));
  EXPECT_EQ(pauses, (std::vector<Duration>{milliseconds(500), seconds(1), seconds(2), seconds(4),
                                           seconds(8), seconds(8)}));
  EXPECT_EQ(runs.next(kKilled, seconds(60)), milliseconds(500)) << "the run was long";
  EXPECT_EQ(runs.next(kKilled, seconds(59)), seconds(1));
}

TEST(RestartPolicy, AProcessThatProgressedComesBackAfterTheFirstPauseHoweverOften) {
  Runs runs{policy(100)};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(runs.next(kKilled, seconds(2), true), milliseconds(500));
  EXPECT_EQ(runs.restarts.failures(), 5U) << "each counts";
  EXPECT_EQ(runs.next(kKilled, seconds(2), false), seconds(1)) << "it has come nowhere";
  EXPECT_EQ(runs.next(kKilled, seconds(2)), seconds(2)) << "it does not say";
  EXPECT_EQ(runs.next(kKilled, seconds(2), true), milliseconds(500));
  EXPECT_EQ(runs.next(kKilled, seconds(2), false), seconds(1));
  EXPECT_EQ(runs.next(kKilled, minutes(2), false), milliseconds(500)) << "it waited for long";
}

TEST(RestartPolicy, AnExitThatIsAFailureWaitsLikeAKill) {
  Runs any{policy(100, true)};
  EXPECT_EQ(any.next(W_EXITCODE(1, 0), seconds(2), false), milliseconds(500));
  EXPECT_EQ(any.next(W_EXITCODE(1, 0), seconds(2), false), seconds(1));
  EXPECT_EQ(any.next(W_EXITCODE(1, 0), seconds(2), true), milliseconds(500));
}

TEST(RestartPolicy, WhoLostAPeerComesBackAtOnce) {
  Runs runs{policy(100)};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(runs.next(kLostPeer, seconds(1)), milliseconds(500));
  EXPECT_EQ(runs.next(kKilled, seconds(1)), milliseconds(500)) << "its own failure is its first";
  EXPECT_EQ(runs.next(kLostPeer, seconds(1)), milliseconds(500));
  EXPECT_EQ(runs.next(kKilled, seconds(1)), seconds(1));
}

TEST(RestartPolicy, OwnFailuresAreCountedForAnHour) {
  Runs runs{policy(2)};
  EXPECT_TRUE(runs.next(kKilled, seconds(100)));
  EXPECT_TRUE(runs.next(kKilled, seconds(100)));
  EXPECT_EQ(runs.restarts.failures(), 2U);
  Runs other = runs;
  EXPECT_FALSE(runs.next(kKilled, minutes(57)));
  EXPECT_TRUE(other.next(kKilled, minutes(59))) << "the first is long ago";
  EXPECT_EQ(other.restarts.failures(), 2U);
  Runs never{policy(0)};
  EXPECT_FALSE(never.next(kKilled, seconds(1)));
  EXPECT_FALSE(never.next(kLostPeer, seconds(1)));
}

TEST(RestartPolicy, LostPeersAreNotOwnFailuresAndAreAwaitedForTenMinutes) {
  Runs runs{policy(1)};
  ASSERT_TRUE(runs.next(kLostPeer, seconds(1)));
  for (int i = 1; i < 20; ++i) ASSERT_TRUE(runs.next(kLostPeer, seconds(30), false)) << i;
  EXPECT_TRUE(runs.next(kLostPeer, seconds(29), true)) << "training went on";
  for (int i = 1; i < 20; ++i) ASSERT_TRUE(runs.next(kLostPeer, seconds(30), false)) << i;
  EXPECT_FALSE(runs.next(kLostPeer, seconds(30), false));
}

TEST(RestartPolicy, ARunThatOnlyWaitedForItsPeersIsNoProgressHoweverLong) {
  Runs runs{policy(5)};
  ASSERT_TRUE(runs.next(kLostPeer, minutes(1), false));
  EXPECT_FALSE(runs.next(kLostPeer, minutes(10), false));
  Runs silent{policy(5)};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(silent.next(kLostPeer, minutes(10))) << "who knows";
}

// As a pserver whose trainers are gone with their node.
TEST(RestartPolicy, ARunThatHasWaitedForItsPeersForTenMinutesIsNotStartedAgain) {
  Runs waited{policy(5)};
  EXPECT_FALSE(waited.next(kLostPeer, minutes(60), true, minutes(10)));
  Runs half{policy(5)};
  EXPECT_TRUE(half.next(kLostPeer, minutes(60), true, minutes(6)));
  EXPECT_TRUE(half.next(kLostPeer, minutes(3), false));
  EXPECT_FALSE(half.next(kLostPeer, minutes(1), false)) << "ten minutes since the last progress";
  Runs back{policy(5)};
  EXPECT_TRUE(back.next(kLostPeer, minutes(60), true, minutes(9)));
  EXPECT_TRUE(back.next(kLostPeer, minutes(60), true, seconds(20))) << "it went on meanwhile";
}

TEST(RestartPolicy, ExitCodesAreFailuresOnlyWhereAskedForAndNeverDoneOrResumable) {
  Runs strict{policy(5)};
  EXPECT_FALSE(strict.next(W_EXITCODE(1, 0), seconds(1)));
  Runs any{policy(5, true)};
  EXPECT_TRUE(any.next(W_EXITCODE(1, 0), seconds(1)));
  EXPECT_FALSE(any.next(W_EXITCODE(0, 0), seconds(1)));
  EXPECT_FALSE(any.next(W_EXITCODE(75, 0), seconds(1))) << "it was stopped and can go on";
}

}  // namespace
}  // namespace paddle::agent
