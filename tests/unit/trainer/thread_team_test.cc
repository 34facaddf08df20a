#include "engine/trainer/thread_team.h"

#include <atomic>

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

}  // namespace
}  // namespace paddle::trainer
