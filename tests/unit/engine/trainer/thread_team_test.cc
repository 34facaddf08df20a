#include "engine/trainer/thread_team.h"

#include <array>
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

TEST(ThreadTeam, SharedWorkIsDoneOnceEach) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}}) {
    ThreadTeam team(size);
    std::vector<std::atomic<int>> calls(40);
    for (int round = 1; round <= 200; ++round) {
      team.share(calls.size(), [&](std::size_t i) { ++calls[i]; });
      for (const std::atomic<int>& one : calls) ASSERT_EQ(one, round);
    }
  }
}

// Who helps must be awake, which a busy machine may prevent a few times.
TEST(ThreadTeam, ThreadsThatAreDoneHelpTheOthers) {
  ThreadTeam team(2);
  std::array<std::thread::id, 2> by;
  for (int round = 0; round < 1000 && by[0] == by[1]; ++round) {
    std::atomic<int> arrived = 0;
    team.run([&](std::size_t part) {
      if (part == 0) return;
      team.share(2, [&](std::size_t i) {
        by[i] = std::this_thread::get_id();
        ++arrived;
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (arrived < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      });
    });
  }
  EXPECT_NE(by[0], by[1]);
}

// Likewise: the items of both wait for each other.
TEST(ThreadTeam, TwoSharingsAreHelpedAtOnce) {
  ThreadTeam team(4);
  std::atomic<bool> is_both = false;
  for (int round = 0; round < 1000 && !is_both; ++round) {
    std::atomic<int> within = 0;
    team.run([&](std::size_t part) {
      if (part > 1) return;
      team.share(2, [&](std::size_t) {
        ++within;
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (within < 4 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        if (within == 4) {
          is_both = true;
        } else {
          --within;
        }
      });
    });
  }
  EXPECT_TRUE(is_both);
}

TEST(ThreadTeam, SeveralMayShareAtOnce) {
  ThreadTeam team(3);
  std::atomic<int> calls = 0;
  for (int round = 1; round <= 200; ++round) {
    team.run([&](std::size_t) { team.share(10, [&](std::size_t) { ++calls; }); });
    ASSERT_EQ(calls, 30 * round);
  }
}

}  // namespace
}  // namespace paddle::trainer
