#include "remote/agent/process/pulse_watch.h"

#include <gtest/gtest.h>

namespace paddle::agent {
namespace {

using std::chrono::seconds;

class PulseWatchTest : public testing::Test {
 protected:
  // A pulse every second for so long, in which `steps` rises when it moves.
  void live(seconds time, bool moves, bool is_stepping = true) {
    for (seconds done{}; done < time; done += seconds(1)) {
      now_ += seconds(1);
      if (moves) ++steps_;
      wire::Pulse pulse;
      pulse.set_steps(steps_);
      pulse.set_is_stepping(is_stepping);
      watch_.on_pulse(now_, pulse);
    }
  }
  bool hangs() const { return watch_.hangs(now_).has_value(); }

  PulseWatch watch_{seconds(60)};
  TimePoint now_{};
  std::uint64_t steps_ = 0;
};

TEST_F(PulseWatchTest, AProcessHangsWithoutASignOfLife) {
  live(seconds(10), true);
  now_ += seconds(59);
  EXPECT_FALSE(hangs());
  now_ += seconds(1);
  EXPECT_EQ(watch_.hangs(now_), "no response for 60 s");
  live(seconds(1), false);
  EXPECT_FALSE(hangs()) << "it goes on";
}

TEST_F(PulseWatchTest, AProcessHangsWhoseWorkStandsStill) {
  live(seconds(10), true);
  live(seconds(59), false);
  EXPECT_FALSE(hangs());
  live(seconds(1), false);
  EXPECT_EQ(watch_.hangs(now_), "one step has taken 60 s so far, the longest before took 1 s");
  live(seconds(1), true);
  EXPECT_FALSE(hangs());
}

// As a trainer waits for another one, tests or saves.
TEST_F(PulseWatchTest, WaitingIsNoHang) {
  live(seconds(10), true);
  live(seconds(10'000), false, false);
  EXPECT_FALSE(hangs());
  live(seconds(59), false);
  EXPECT_FALSE(hangs()) << "the time spent waiting does not count";
  live(seconds(1), false);
  EXPECT_TRUE(hangs());
}

TEST_F(PulseWatchTest, SlowWorkIsNoHang) {
  live(seconds(1), true);
  for (int batch = 0; batch < 3; ++batch) {
    live(seconds(50), false);
    live(seconds(1), true);
  }
  live(seconds(20 * 51 - 1), false);
  EXPECT_FALSE(hangs());
  live(seconds(1), false);
  EXPECT_TRUE(hangs());
}

TEST_F(PulseWatchTest, AProcessMayHangBeforeItsFirstPulse) {
  now_ += seconds(10'000);
  watch_.restart(now_);
  now_ += seconds(59);
  EXPECT_FALSE(hangs());
  now_ += seconds(1);
  EXPECT_TRUE(hangs());
}

TEST_F(PulseWatchTest, TheFirstStepMayTakeAnyTime) {
  live(seconds(10'000), false);
  EXPECT_FALSE(hangs()) << "it may read its data for hours";
  now_ += seconds(60);
  EXPECT_TRUE(hangs()) << "but it has to live";
  watch_.restart(now_);
  EXPECT_FALSE(hangs()) << "that run is over";
}

TEST_F(PulseWatchTest, TimeInWhichTheWatcherStoodStillDoesNotCount) {
  live(seconds(10), true);
  now_ += seconds(10'000);
  watch_.discount(now_);
  EXPECT_FALSE(hangs());
  now_ += seconds(60);
  EXPECT_TRUE(hangs());
}

TEST_F(PulseWatchTest, WithoutALimitAProcessMayHang) {
  watch_ = PulseWatch(Duration::zero());
  live(seconds(10), true);
  now_ += seconds(10'000);
  EXPECT_FALSE(hangs());
}

}  // namespace
}  // namespace paddle::agent
