#include "base/helpers.h"

#include <chrono>
#include <set>

#include <gtest/gtest.h>

namespace paddle {
namespace {

constexpr std::size_t kParts = 1000;

TEST(Helpers, DoEveryPartOnceForSeveralAtATime) {
  Helpers helpers(2);
  constexpr int kTimes = 200;
  const auto call_many = [&helpers](bool& good) {
    for (int time = 0; time < kTimes; ++time) {
      std::vector<int> done(kParts, 0);
      helpers.share(kParts, [&done](std::size_t part) { ++done[part]; });
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

// Parts that wait for each other can only end when several threads are at work.
TEST(Helpers, WorkAtTheSameTimeAfterASleepToo) {
  Helpers helpers(2);
  for (const auto pause : {std::chrono::milliseconds(0), std::chrono::milliseconds(20)}) {
    std::this_thread::sleep_for(pause);
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::thread::id> at_work;
    helpers.share(kParts, [&](std::size_t) {
      std::unique_lock lock(mutex);
      at_work.insert(std::this_thread::get_id());
      changed.notify_all();
      changed.wait_for(lock, std::chrono::seconds(20), [&] { return at_work.size() == 3; });
    });
    EXPECT_EQ(at_work.size(), 3U);
  }
}

TEST(Helpers, LeaveFewPartsAndAllWithoutThemToTheCaller) {
  const auto caller = std::this_thread::get_id();
  std::size_t done = 0;
  const auto work = [&](std::size_t part) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(part, done++);
  };
  Helpers helpers(1);
  helpers.share(2, work);
  EXPECT_EQ(done, 2U);
  done = 0;
  Helpers none(0);
  none.share(kParts, work);
  EXPECT_EQ(done, kParts);
}

}  // namespace
}  // namespace paddle
