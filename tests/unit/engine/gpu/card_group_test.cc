// Groups of cards whose library hangs or fails.
#include "engine/gpu/card_group.h"

#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/engine/gpu/device_fixture.h"

namespace paddle::device {
namespace {

using test::FakeDevice;
using test::FakeSumFaults;
using Values = std::vector<float>;

// A rank with a card, in a group of such.
struct Rank {
  explicit Rank(std::uint32_t index, FakeSumFaults faults = {})
      : number(index), device(with_seed(index)), stream(expect(Stream::open(device))) {
    device.set_sum_faults(std::move(faults));
  }
  Status join(const CommunicatorId& id, std::uint32_t ranks, TimePoint deadline) {
    auto joined = CardGroup::join(device, id, {number, ranks, "job"}, deadline);
    if (!joined) return std::move(joined).error();
    group = *std::move(joined);
    return {};
  }
  Status sum(const Values& values, TimePoint deadline, Values* found = nullptr) {
    if (!memory) memory.emplace(on_card(device, stream, values));
    PADDLE_TRY_STATUS(group->sum(stream.handle(), memory->data(), values.size(), deadline));
    PADDLE_TRY(const Event done, Event::make(device));
    device.record(stream.handle(), done.handle());
    PADDLE_TRY_STATUS(group->wait(done.handle(), deadline, [] { return Status(); }));
    if (found != nullptr) *found = read(device, stream, *memory);
    return {};
  }

  std::uint32_t number;
  FakeDevice device;
  Stream stream;
  std::optional<CardMemory<float>> memory;
  std::unique_ptr<CardGroup> group;
};

// Calls `work` for two ranks, on a thread each.
void on_two(const FakeSumFaults& of_first, const std::function<void(Rank&, CommunicatorId)>& work) {
  Rank first(0, of_first);
  Rank second(1);
  const CommunicatorId id = expect(first.device.make_communicator_id());
  std::thread other([&] { work(second, id); });
  work(first, id);
  other.join();
}

TEST(CardGroup, SumsOfTwoCards) {
  on_two({}, [](Rank& rank, const CommunicatorId& id) {
    expect(rank.join(id, 2, in_seconds(10)));
    Values found;
    expect(rank.sum({1, 2.5F}, in_seconds(10), &found));
    EXPECT_EQ(found, (Values{2, 5}));
  });
}

TEST(CardGroup, Trap32AJoinThatStaysUnderWayEndsAtItsDeadline) {
  Rank alone(0, {.polls_under_way = test::kForEver});
  const CommunicatorId id = expect(alone.device.make_communicator_id());
  const Status joined = alone.join(id, 1, SteadyClock().now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::kUnreachable);
  EXPECT_EQ(joined.error().message.find("the cards of all trainers join"), 0U)
      << joined.error().message;
}

TEST(CardGroup, Trap32AnErrorThatComesAfterASuccessIsTheCauseOfAllThatFollows) {
  on_two({.sum_fails = 2}, [](Rank& rank, const CommunicatorId& id) {
    expect(rank.join(id, 2, in_seconds(10)));
    expect(rank.sum({1}, in_seconds(10)));
    const TimePoint deadline = SteadyClock().now() + std::chrono::milliseconds(200);
    const Status failed = rank.sum({1}, deadline);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code == Errc::kUnreachable, rank.number == 1)
        << "nothing tells the other card: " << failed.error().message;
    const Status again = rank.sum({1}, in_seconds(10));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, failed.error().message);
  });
}

TEST(CardGroup, Trap32AnErrorWhereASumBeginsIsReturned) {
  Rank alone(0, {.begin_fails = 1});
  const CommunicatorId id = expect(alone.device.make_communicator_id());
  expect(alone.join(id, 1, in_seconds(10)));
  EXPECT_FALSE(alone.sum({1}, in_seconds(10)));
}

TEST(CardGroup, Trap31AnAbortThatNeverReturnsHoldsNobodyUpForLong) {
  // The thread that aborts has them to the end of the program.
  static std::latch never(1);
  static Rank* const alone = new Rank(0, {.sum_fails = 1, .in_abort = [] { never.wait(); }});
  const TimePoint begun = SteadyClock().now();
  const CommunicatorId id = expect(alone->device.make_communicator_id());
  expect(alone->join(id, 1, in_seconds(10)));
  const Status failed = alone->sum({1}, in_seconds(10));
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().code, Errc::kUnreachable) << "the first cause";
  alone->group.reset();
  EXPECT_LT(SteadyClock().now() - begun, std::chrono::seconds(20));
  // Its thread may hold what a second group would wait for.
  EXPECT_TRUE(CardGroup::is_stuck());
  Rank second(0);
  const CommunicatorId other = expect(second.device.make_communicator_id());
  const Status refused = second.join(other, 1, in_seconds(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnreachable);
  never.count_down();
  while (CardGroup::is_stuck()) std::this_thread::yield();
  EXPECT_TRUE(second.join(other, 1, in_seconds(10)));
}

TEST(CardGroup, AnAbortByAnotherThreadEndsAWait) {
  on_two({}, [](Rank& rank, const CommunicatorId& id) {
    expect(rank.join(id, 2, in_seconds(10)));
    if (rank.number == 1) return;  // it never sums
    std::thread other([&] { rank.group->abort({Errc::kFailed, "the job is over"}); });
    const Status ended = rank.sum({1}, in_seconds(10));
    other.join();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message, "the job is over");
  });
}

TEST(CardGroup, WhatTheWatcherSeesEndsAWait) {
  on_two({}, [](Rank& rank, const CommunicatorId& id) {
    expect(rank.join(id, 2, in_seconds(10)));
    if (rank.number == 1) return;
    const auto memory = on_card(rank.device, rank.stream, Values{1});
    expect(rank.group->sum(rank.stream.handle(), memory.data(), 1, in_seconds(10)));
    const Event done = expect(Event::make(rank.device));
    rank.device.record(rank.stream.handle(), done.handle());
    const Status ended = rank.group->wait(done.handle(), in_seconds(10), []() -> Status {
      return Error{Errc::kUnreachable, "rank 1 is lost"};
    });
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message, "rank 1 is lost");
    rank.group.reset();  // the sum uses the memory until then
  });
}

}  // namespace
}  // namespace paddle::device
