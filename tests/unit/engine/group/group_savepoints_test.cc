// Savepoints of one rank in memory of which only marks are trusted.
#include "engine/group/group_savepoints.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kFloats = 1500;

class GroupSavepointsTest : public testing::Test {
 protected:
  GroupSavepoints incarnation(std::uint64_t job = 1, std::uint64_t floats = kFloats) const {
    return {{.memory = UniqueFd(::dup(memory_.get())), .offset = 100}, {job, floats, 64}};
  }
  static void keep(GroupSavepoints& savepoints, std::uint64_t number,
                   std::uint64_t floats = kFloats) {
    savepoints.keep(number, "head " + std::to_string(number), 0.5,
                    [&](const GroupSavepoints::Put& put) -> Status {
                      std::vector<float> part(floats);
                      std::iota(part.begin(), part.end(), static_cast<float>(number));
                      PADDLE_TRY_STATUS(put(std::span(part).first(floats / 3)));
                      return put(std::span(part).subspan(floats / 3));
                    });
  }
  static std::vector<std::uint64_t> numbers(const GroupSavepoints& savepoints) {
    std::vector<std::uint64_t> all;
    for (const auto& mark : savepoints.marks()) all.push_back(mark.number);
    std::ranges::sort(all);
    return all;
  }

  UniqueFd memory_{::memfd_create("savepoints", 0)};
};

TEST_F(GroupSavepointsTest, TheNextProcessFindsTheTwoNewestWhole) {
  GroupSavepoints first = incarnation();
  EXPECT_EQ(numbers(first), (std::vector<std::uint64_t>{0, 0}));
  for (const std::uint64_t number : {1, 2, 3}) keep(first, number);
  const GroupSavepoints second = incarnation();
  EXPECT_EQ(numbers(second), (std::vector<std::uint64_t>{2, 3}));
  for (const GroupSavepoints::Mark& mark : second.marks()) {
    const auto head = second.head(mark);
    ASSERT_TRUE(head);
    EXPECT_EQ(*head, "head " + std::to_string(mark.number));
    EXPECT_EQ(second.own(mark), 0.5);
    std::vector<float> part(kFloats);
    const Status restored = second.restore(mark, [&](const GroupSavepoints::Take& take) -> Status {
      PADDLE_TRY_STATUS(take(std::span(part).first(7)));
      return take(std::span(part).subspan(7));
    });
    ASSERT_TRUE(restored);
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], static_cast<float>(mark.number + i));
    }
  }
}

TEST_F(GroupSavepointsTest, OneThatIsNotWholeDoesNotCount) {
  GroupSavepoints first = incarnation();
  keep(first, 1);
  keep(first, 2);
  first.keep(3, "head 3", 0, [](const GroupSavepoints::Put& put) -> Status {
    PADDLE_TRY_STATUS(put(std::vector<float>(kFloats / 2)));
    return Error{Errc::kResource, "the process ends here"};
  });
  EXPECT_EQ(numbers(incarnation()), (std::vector<std::uint64_t>{0, 2}));
  keep(first, 4);
  EXPECT_EQ(numbers(incarnation()), (std::vector<std::uint64_t>{0, 2})) << "it gave up";
}

TEST_F(GroupSavepointsTest, OfAnotherJobOrShapeNoneIsThere) {
  GroupSavepoints first = incarnation();
  keep(first, 1);
  EXPECT_EQ(numbers(incarnation(2)), (std::vector<std::uint64_t>{0, 0}));
  first.keep_only({});
  EXPECT_EQ(numbers(incarnation()), (std::vector<std::uint64_t>{0, 0}));
}

TEST_F(GroupSavepointsTest, OnesThatOnlySomeHaveAreForgotten) {
  GroupSavepoints savepoints = incarnation();
  for (const std::uint64_t number : {5, 6}) keep(savepoints, number);
  const auto mine = savepoints.marks();
  const auto one = [&](std::uint64_t number) {
    return mine[0].number == number ? mine[0] : mine[1];
  };
  const GroupSavepoints::Marks older{one(5), {4, 44}};
  const GroupSavepoints::Marks other{one(5), {6, 66}};
  EXPECT_EQ(GroupSavepoints::newest_of_all(std::vector{mine, mine}), one(6));
  EXPECT_EQ(GroupSavepoints::newest_of_all(std::vector{mine, older, mine}), one(5));
  EXPECT_EQ(GroupSavepoints::newest_of_all(std::vector{mine, other}), one(5));
  EXPECT_EQ(GroupSavepoints::newest_of_all(std::vector{mine, GroupSavepoints::Marks{}}).number, 0U);
  savepoints.keep_only(one(5));
  EXPECT_EQ(numbers(incarnation()), (std::vector<std::uint64_t>{0, 5}));
}

TEST_F(GroupSavepointsTest, WithoutRoomItGivesUpAndTrainingGoesOn) {
  const std::string path = "/proc/self/fd/" + std::to_string(memory_.get());
  GroupSavepoints savepoints({.memory = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))},
                             {1, 3, 64});
  keep(savepoints, 1, 3);
  EXPECT_EQ(numbers(savepoints), (std::vector<std::uint64_t>{0, 0}));
  EXPECT_FALSE(savepoints.is_due(SteadyClock().now() + std::chrono::hours(1), 1));
}

TEST_F(GroupSavepointsTest, ComeAtMultiplesOfBatchesIfThatIsSoonEnough) {
  GroupSavepoints savepoints(
      {.memory = UniqueFd(::dup(memory_.get())), .period = std::chrono::seconds(10), .batches = 50},
      {1, kFloats, 64});
  const TimePoint now = SteadyClock().now();
  EXPECT_FALSE(savepoints.is_due(now + std::chrono::seconds(9), 50));
  EXPECT_TRUE(savepoints.is_due(now + std::chrono::seconds(11), 100));
  EXPECT_FALSE(savepoints.is_due(now + std::chrono::seconds(11), 101));
  EXPECT_TRUE(savepoints.is_due(now + std::chrono::seconds(21), 101));
}

}  // namespace
}  // namespace paddle::strategy
