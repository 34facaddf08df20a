#include "base/pool.h"

#include <pthread.h>

#include <array>
#include <chrono>
#include <set>

#include <gtest/gtest.h>

namespace paddle {
namespace {

constexpr std::size_t kParts = 1000;

TEST(ForEachParallel, RunsEveryIterationOnce) {
  for (const std::size_t count : {0U, 1U, 100U}) {
    std::vector<std::atomic<int>> calls(count);
    for_each_parallel(
        count, [&](std::size_t i) { ++calls[i]; }, 8);
    for (const std::atomic<int>& one : calls) EXPECT_EQ(one, 1);
  }
}

// Four iterations that wait for each other, and never a fifth beside them.
TEST(ForEachParallel, RunsUpToTheLimitAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t running = 0;
  std::size_t most = 0;
  std::size_t ended = 0;
  for_each_parallel(
      40,
      [&](std::size_t) {
        std::unique_lock lock(mutex);
        most = std::max(most, ++running);
        changed.notify_all();
        changed.wait_for(lock, std::chrono::seconds(20), [&] { return most >= 4; });
        --running;
        ++ended;
      },
      4);
  EXPECT_EQ(most, 4U);
  EXPECT_EQ(ended, 40U);
}

TEST(ForEachParallel, OneAtATimeStaysOnTheCallingThread) {
  const auto caller = std::this_thread::get_id();
  for_each_parallel(
      5, [&](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); }, 1);
}

// As ulimit -u and ulimit -v have it.
TEST(ForEachParallel, GoesOnWithoutTheThreadsThatTheSystemRefuses) {
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_getattr_default_np(&attributes), 0);
  std::size_t usual = 0;
  ASSERT_EQ(::pthread_attr_getstacksize(&attributes, &usual), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, std::size_t{1} << 47U), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&attributes), 0);
  std::vector<std::atomic<int>> calls(10);
  for_each_parallel(
      calls.size(), [&](std::size_t i) { ++calls[i]; }, 4);
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, usual), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&attributes), 0);
  ::pthread_attr_destroy(&attributes);
  for (const std::atomic<int>& one : calls) EXPECT_EQ(one, 1);
}

TEST(HelperPool, RunsEveryIterationOnceForSeveralCallers) {
  HelperPool helpers(2);
  constexpr int kTimes = 200;
  const auto call_many = [&helpers](bool& good) {
    for (int time = 0; time < kTimes; ++time) {
      std::vector<int> done(kParts, 0);
      helpers.parallel_for(kParts, [&done](std::size_t part) { ++done[part]; });
      good = good && done == std::vector<int>(kParts, 1);
    }
  };
  bool is_good = true;
  bool is_other_good = true;
  std::thread other([&] { call_many(is_other_good); });
  call_many(is_good);
  other.join();
  EXPECT_TRUE(is_good);
  EXPECT_TRUE(is_other_good);
}

// Iterations that wait for each other end only when several threads run them.
TEST(HelperPool, HelpersRunAtTheSameTimeAfterASleepToo) {
  HelperPool helpers(2);
  for (const auto pause : {std::chrono::milliseconds(0), std::chrono::milliseconds(20)}) {
    std::this_thread::sleep_for(pause);
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::thread::id> at_work;
    helpers.parallel_for(kParts, [&](std::size_t) {
      std::unique_lock lock(mutex);
      at_work.insert(std::this_thread::get_id());
      changed.notify_all();
      changed.wait_for(lock, std::chrono::seconds(20), [&] { return at_work.size() == 3; });
    });
    EXPECT_EQ(at_work.size(), 3U);
  }
}

TEST(HelperPool, ShortLoopsStayOnTheCallingThread) {
  const auto caller = std::this_thread::get_id();
  std::size_t done = 0;
  const auto work = [&](std::size_t part) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(part, done++);
  };
  HelperPool helpers(1);
  helpers.parallel_for(2, work);
  EXPECT_EQ(done, 2U);
  done = 0;
  HelperPool none(0);
  none.parallel_for(kParts, work);
  EXPECT_EQ(done, kParts);
}

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
      // The caller's own part ends first, so the caller falls asleep too.
      if (part > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++calls;
    });
    ASSERT_EQ(calls, 3 * round);
  }
}

TEST(ThreadTeam, RunsEveryIterationOnce) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}}) {
    ThreadTeam team(size);
    std::vector<std::atomic<int>> calls(40);
    for (int round = 1; round <= 200; ++round) {
      team.parallel_for(calls.size(), [&](std::size_t i) { ++calls[i]; });
      for (const std::atomic<int>& one : calls) ASSERT_EQ(one, round);
    }
  }
}

// A helper must be awake, which a busy machine may prevent a few times.
TEST(ThreadTeam, IdleMembersHelp) {
  ThreadTeam team(2);
  std::array<std::thread::id, 2> by;
  for (int round = 0; round < 1000 && by[0] == by[1]; ++round) {
    std::atomic<int> arrived = 0;
    team.run([&](std::size_t part) {
      if (part == 0) return;
      team.parallel_for(2, [&](std::size_t i) {
        by[i] = std::this_thread::get_id();
        ++arrived;
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (arrived < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      });
    });
  }
  EXPECT_NE(by[0], by[1]);
}

// Likewise: the iterations of both loops wait for each other.
TEST(ThreadTeam, TwoLoopsAreHelpedAtOnce) {
  ThreadTeam team(4);
  std::atomic<bool> is_both = false;
  for (int round = 0; round < 1000 && !is_both; ++round) {
    std::atomic<int> within = 0;
    team.run([&](std::size_t part) {
      if (part > 1) return;
      team.parallel_for(2, [&](std::size_t) {
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

TEST(ThreadTeam, SeveralPartsMayCallParallelFor) {
  ThreadTeam team(3);
  std::atomic<int> calls = 0;
  for (int round = 1; round <= 200; ++round) {
    team.run([&](std::size_t) { team.parallel_for(10, [&](std::size_t) { ++calls; }); });
    ASSERT_EQ(calls, 30 * round);
  }
}

}  // namespace
}  // namespace paddle
