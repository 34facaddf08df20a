#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "remote/launcher/ssh_session.h"

namespace paddle::remote {
namespace {

TimePoint soon() {
  return SteadyClock().now() + std::chrono::seconds(30);
}

TEST(LoginSlots, FewerThanSshdDropsAreUnderWayAtOneServer) {
  static_assert(kLoginsAtOnce < 10, "sshd's MaxStartups begins to drop at ten");
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  std::atomic<int> done = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 40; ++i) {
      threads.emplace_back([&] {
        const auto slot = acquire_login_slot("bastion 22", soon());
        ASSERT_TRUE(slot) << slot.error().message;
        const int now = ++at_once;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        --at_once;
        ++done;
      });
    }
  }
  EXPECT_EQ(done, 40);
  EXPECT_LE(most, kLoginsAtOnce);
}

TEST(LoginSlots, OneServerDoesNotWaitForAnother) {
  std::vector<LoginSlot> held;
  for (int i = 0; i < kLoginsAtOnce; ++i) held.push_back(*acquire_login_slot("a 22", soon()));
  EXPECT_TRUE(acquire_login_slot("b 22", SteadyClock().now()));
  const auto late = acquire_login_slot("a 22", SteadyClock().now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kUnreachable);
  held.pop_back();
  EXPECT_TRUE(acquire_login_slot("a 22", SteadyClock().now()));
}

TEST(LoginSlots, PausesGrowAndStayShort) {
  using std::chrono::milliseconds;
  for (int tries = 1; tries < kLoginTriesMax; ++tries) {
    const Duration pause = pause_before_login_try(tries);
    const Duration longest =
        std::min<Duration>(milliseconds(100) * (1 << (tries - 1)), milliseconds(2000));
    EXPECT_LE(pause, longest) << tries;
    EXPECT_GE(pause, longest / 2) << tries;
  }
}

}  // namespace
}  // namespace paddle::remote
