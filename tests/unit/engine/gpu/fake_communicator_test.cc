// Sums between fake cards.
#include "tests/support/device/fake_communicator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/engine/gpu/device_fixture.h"

namespace paddle::device {
namespace {

using test::FakeDevice;
using test::FakeSumFaults;
using State = Communicator::State;
using Values = std::vector<float>;

// Ends the test where it fails.
void expect_ready(Communicator& communicator) {
  while (expect(communicator.poll()) == State::kUnderWay) std::this_thread::yield();
}

std::unique_ptr<Communicator> join(FakeDevice& device, const CommunicatorId& id, std::uint32_t rank,
                                   std::uint32_t ranks) {
  auto communicator = expect(device.begin_join(id, rank, ranks, "rank " + std::to_string(rank)));
  expect_ready(*communicator);
  return communicator;
}

void expect_sum(FakeDevice& device, const Stream& stream, Communicator& communicator,
                const Values& own, const Values& want) {
  const auto memory = on_card(device, stream, own);
  expect(communicator.begin_sum(stream.handle(), memory.data(), memory.capacity()));
  expect_ready(communicator);
  expect(finish(device, stream));
  EXPECT_EQ(read(device, stream, memory), want);
}

// Calls `work` with a device of each rank, on a thread each.
template <class F>
void on_ranks(std::uint32_t ranks, F work) {
  FakeDevice first;
  const CommunicatorId id = expect(first.make_communicator_id());
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      FakeDevice device(with_seed(rank));
      work(device, id, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FakeCommunicator, SumsInTheOrderOfRanks) {
  on_ranks(4, [](FakeDevice& device, const CommunicatorId& id, std::uint32_t rank) {
    const auto communicator = join(device, id, rank, 4);
    const Stream stream = expect(Stream::open(device));
    const Stream other = expect(Stream::open(device));
    // 1e8 + 1 is 1e8 in float32.
    const float own = std::vector<float>{1e8F, 1, -1e8F, 1}[rank];
    expect_sum(device, stream, *communicator, {own, static_cast<float>(rank)}, {1, 6});
    const std::size_t long_size = 200'001;
    expect_sum(device, other, *communicator, Values(long_size, 1), Values(long_size, 4));
    EXPECT_EQ(device.counts().sums, 2U);
  });
}

TEST(FakeCommunicator, SumsOfTwoStreamsAreInTheOrderOfTheirCalls) {
  on_ranks(3, [](FakeDevice& device, const CommunicatorId& id, std::uint32_t rank) {
    const auto communicator = join(device, id, rank, 3);
    const Stream a = expect(Stream::open(device));
    const Stream b = expect(Stream::open(device));
    const auto first = on_card<float>(device, a, {1});
    const auto second = on_card<float>(device, b, {2});
    expect(communicator->begin_sum(a.handle(), first.data(), 1));
    expect_ready(*communicator);
    expect(communicator->begin_sum(b.handle(), second.data(), 1));
    expect_ready(*communicator);
    expect(finish(device, b));
    expect(finish(device, a));
    EXPECT_EQ(read(device, b, second), Values{6});
    EXPECT_EQ(read(device, a, first), Values{3});
  });
}

TEST(FakeCommunicator, ACardGoesOnWhileItsHostAsksForNothing) {
  std::latch others_are_done(2);
  on_ranks(3, [&](FakeDevice& device, const CommunicatorId& id, std::uint32_t rank) {
    const auto communicator = join(device, id, rank, 3);
    const Stream stream = expect(Stream::open(device));
    const auto memory = on_card<float>(device, stream, {1});
    expect(communicator->begin_sum(stream.handle(), memory.data(), 1));
    if (rank == 0) others_are_done.wait();
    expect(finish(device, stream));
    EXPECT_EQ(read(device, stream, memory), Values{3});
    if (rank != 0) others_are_done.count_down();
  });
}

TEST(FakeCommunicator, RanksMayBeProcesses) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer has no threads after a fork";
#endif
  FakeDevice device;
  const CommunicatorId id = expect(device.make_communicator_id());
  const pid_t child = ::fork();
  if (child == 0) {
    {
      FakeDevice own;
      const auto communicator = join(own, id, 1, 2);
      const Stream stream = expect(Stream::open(own));
      expect_sum(own, stream, *communicator, {2, 3}, {3, 13});
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  {
    const auto communicator = join(device, id, 0, 2);
    const Stream stream = expect(Stream::open(device));
    expect_sum(device, stream, *communicator, {1, 10}, {3, 13});
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FakeCommunicator, IsUnderWayUntilAllHaveJoined) {
  FakeDevice device;
  FakeDevice other;
  const CommunicatorId id = expect(device.make_communicator_id());
  const auto first = expect(device.begin_join(id, 0, 2, "rank 0"));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(expect(first->poll()), State::kUnderWay);
  const auto second = expect(other.begin_join(id, 1, 2, "rank 1"));
  EXPECT_EQ(expect(second->poll()), State::kUnderWay);
  EXPECT_EQ(expect(second->poll()), State::kReady);
  EXPECT_EQ(expect(first->poll()), State::kReady);
}

// One rank, which needs no other.
class FakeSums : public testing::Test {
 protected:
  void fail(FakeSumFaults faults) { device_.set_sum_faults(std::move(faults)); }
  Status begin_sum() { return communicator_->begin_sum(stream_.handle(), memory_.data(), 1); }

  FakeDevice device_;
  const Stream stream_ = expect(Stream::open(device_));
  const CommunicatorId id_ = expect(device_.make_communicator_id());
  CardMemory<float> memory_ = on_card<float>(device_, stream_, {5});
  std::unique_ptr<Communicator> communicator_ = join(device_, id_, 0, 1);
};
class FakeSumsDeathTest : public FakeSums {
  // A communicator has a thread, which may hold a lock where the fast style forks.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { GTEST_FLAG_SET(death_test_style, "fast"); }
};

TEST_F(FakeSums, MayHaveNoLibrary) {
  fail({.library = Error{Errc::kVersion, "NCCL 1"}});
  EXPECT_EQ(device_.make_communicator_id().error().code, Errc::kVersion);
  EXPECT_EQ(device_.begin_join(id_, 0, 1, "rank 0").error().message, "NCCL 1");
}

TEST_F(FakeSums, MayBeUnderWayForEver) {
  fail({.polls_under_way = test::kForEver});
  expect(begin_sum());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(expect(communicator_->poll()), State::kUnderWay);
  communicator_->abort();
  communicator_.reset();
  expect(finish(device_, stream_));
}

TEST_F(FakeSums, AJoinMayFailLate) {
  fail({.join_fails = true});
  const auto joined = expect(device_.begin_join(expect(device_.make_communicator_id()), 0, 1, "r"));
  EXPECT_EQ(expect(joined->poll()), State::kUnderWay);
  EXPECT_EQ(joined->poll().error().message, "r: another rank is gone");
  EXPECT_FALSE(joined->poll());
  joined->abort();
}

TEST_F(FakeSums, ACallMayFail) {
  fail({.begin_fails = 2});
  expect(begin_sum());
  expect_ready(*communicator_);
  expect(finish(device_, stream_));
  EXPECT_EQ(begin_sum().error().message, "rank 0: this sum cannot be begun");
  EXPECT_FALSE(communicator_->poll());
  communicator_->abort();
  EXPECT_EQ(read(device_, stream_, memory_), Values{5});
}

TEST_F(FakeSums, ASumMayFailAfterItWasTakenUpAndNeverComes) {
  fail({.sum_fails = 1});
  expect(begin_sum());
  expect_ready(*communicator_);
  const Event event = expect(Event::make(device_));
  device_.record(stream_.handle(), event.handle());
  EXPECT_EQ(device_.wait(event.handle(), SteadyClock().now()).error().code, Errc::kUnreachable);
  while (communicator_->poll()) {
  }
  EXPECT_FALSE(expect(device_.is_done(event.handle())));
  communicator_->abort();
  expect(device_.wait(event.handle(), in_seconds(60)));
  EXPECT_TRUE(std::isnan(read(device_, stream_, memory_)[0]));
}

TEST_F(FakeSums, AnAbortMayTakeForEver) {
  std::latch returns(1);
  fail({.sum_fails = 1, .in_abort = [&] { returns.wait(); }});
  expect(begin_sum());
  const Event event = expect(Event::make(device_));
  device_.record(stream_.handle(), event.handle());
  std::thread aborts([&] { communicator_->abort(); });
  EXPECT_FALSE(device_.wait(event.handle(), SteadyClock().now()));
  returns.count_down();
  aborts.join();
  expect(device_.wait(event.handle(), in_seconds(60)));
}

TEST_F(FakeSumsDeathTest, AreBegunOneAfterTheOther) {
  expect(begin_sum());
  EXPECT_DEATH(static_cast<void>(begin_sum()), "while another call is under way");
  expect_ready(*communicator_);
  expect(finish(device_, stream_));
}

TEST_F(FakeSumsDeathTest, AreOfMemoryOfTheCardAndNotCaptured) {
  float host = 0;
  EXPECT_DEATH(static_cast<void>(communicator_->begin_sum(stream_.handle(), &host, 1)),
               "a sum names memory that is not of the card");
  EXPECT_DEATH(static_cast<void>(communicator_->begin_sum(stream_.handle(), memory_.data(), 2)),
               "a sum goes past its memory's end");
  device_.begin_capture(stream_.handle());
  EXPECT_DEATH(static_cast<void>(begin_sum()), "a sum is captured");
  const Graph graph(device_, expect(device_.end_capture(stream_.handle())));
}

TEST_F(FakeSumsDeathTest, NoMemoryMovesBesideThem) {
  // The sum is not done before the other rank begins it.
  FakeDevice other;
  const Stream stream = expect(Stream::open(other));
  const auto memory = on_card<float>(other, stream, {2});
  const CommunicatorId id = expect(device_.make_communicator_id());
  const auto first = expect(device_.begin_join(id, 0, 2, "rank 0"));
  const auto second = expect(other.begin_join(id, 1, 2, "rank 1"));
  expect_ready(*second);
  expect_ready(*first);
  expect(first->begin_sum(stream_.handle(), memory_.data(), 1));
  expect_ready(*first);
  const char* const why = "beside a sum: a card may wait for it first";
  EXPECT_DEATH(static_cast<void>(device_.allocate(4)), why);
  EXPECT_DEATH(static_cast<void>(device_.allocate_pinned(4)), why);
  EXPECT_DEATH(static_cast<void>(memory_.reserve(2)), why);
  expect(second->begin_sum(stream.handle(), memory.data(), 1));
  expect_ready(*second);
  expect(finish(other, stream));
  expect(finish(device_, stream_));
  expect(memory_.reserve(2));
}

TEST_F(FakeSumsDeathTest, AFailureLeavesOnlyTheAbort) {
  fail({.join_fails = true});
  ASSERT_FALSE(communicator_->poll());
  EXPECT_DEATH(static_cast<void>(begin_sum()), "by a communicator that failed");
  EXPECT_DEATH(communicator_.reset(), "a communicator that failed was not aborted");
  communicator_->abort();
  EXPECT_DEATH(communicator_->abort(), "a communicator is aborted twice");
  EXPECT_DEATH(static_cast<void>(communicator_->poll()), "is asked that was aborted");
  EXPECT_DEATH(static_cast<void>(begin_sum()), "by a communicator that was aborted");
}

TEST_F(FakeSumsDeathTest, RanksJoinOnce) {
  const auto begin = [&](std::uint32_t rank, std::uint32_t ranks) {
    return device_.begin_join(id_, rank, ranks, "rank");
  };
  EXPECT_DEATH(static_cast<void>(begin(0, 1)), "rank 0 joins twice");
  EXPECT_DEATH(static_cast<void>(begin(1, 2)), "ranks join that count 1 and 2 ranks");
  EXPECT_EQ(begin(1, 1).error().code, Errc::kUsage);
}

}  // namespace
}  // namespace paddle::device
