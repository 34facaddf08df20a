#include "engine/group/numbered_queue.h"

#include <string>

#include <gtest/gtest.h>

namespace paddle::collective {
namespace {

TEST(NumberedQueue, FindsWhatIsInItByNumber) {
  NumberedQueue<std::string> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.find(1), nullptr);
  EXPECT_EQ(queue.push("one"), "one");
  EXPECT_EQ(queue.push("two"), "two");
  EXPECT_EQ(queue.find(0), nullptr);
  EXPECT_EQ(*queue.find(2), "two");
  EXPECT_EQ(queue.find(3), nullptr);
  queue.pop();
  EXPECT_EQ(queue.first(), 2U);
  EXPECT_EQ(queue.find(1), nullptr);
  queue.pop();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.find(2), nullptr);
}

TEST(NumberedQueue, GrowsWhereverItsOldestEntryLies) {
  for (const std::uint64_t left : {0, 1, 15, 16, 40}) {
    NumberedQueue<std::string> queue;
    for (std::uint64_t i = 0; i < left; ++i) {
      queue.push("left");
      queue.pop();
    }
    for (int i = 0; i < 100; ++i) queue.push(std::to_string(queue.end()));
    EXPECT_EQ(queue.end(), left + 101);
    for (std::uint64_t number = left + 1; number < queue.end(); ++number) {
      ASSERT_NE(queue.find(number), nullptr);
      EXPECT_EQ(*queue.find(number), std::to_string(number));
    }
  }
}

}  // namespace
}  // namespace paddle::collective
