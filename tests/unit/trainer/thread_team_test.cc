#include "engine/trainer/thread_team.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace paddle::trainer {
namespace {

TEST(ThreadTeam, EveryPartRunsOnceEachTime) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<std::atomic<int>> calls(size);
    for (int round = 1; round <= 200; ++round) {
      team.run([&](std::size_t part) { ++calls[part]; });
      for (std::size_t part = 0; part < size; ++part) ASSERT_EQ(calls[part], round);
    }
  }
}

TEST(ThreadTeam, WakesThreadsThatFellAsleep) {
  ThreadTeam team(3);
  std::atomic<int> calls = 0;
  for (int round = 1; round <= 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than they stay awake
    team.run([&](std::size_t part) {
      // The caller's own part ends first, so that it falls asleep too.
      if (part > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++calls;
    });
    ASSERT_EQ(calls, 3 * round);
  }
}

}  // namespace
}  // namespace paddle::trainer
