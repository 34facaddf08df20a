// Streams, events and memory of the fake device.
#include "tests/support/device/fake_device.h"

#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/engine/gpu/device_fixture.h"

namespace paddle::device {
namespace {

using test::FakeDevice;
using Values = std::vector<float>;

class AnyOrder : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, AnyOrder, testing::Range<std::uint64_t>(0, 12));

TEST_P(AnyOrder, AStreamRunsInItsOrder) {
  FakeDevice device(with_seed(GetParam()));
  const Stream stream = expect(Stream::open(device));
  const auto memory = memory_of<float, Place::kCard>(device, 3);
  const auto from = pinned<float>(device, {1, 2, 3});
  const auto to = memory_of<float, Place::kPinned>(device, 3);
  device.launch(stream.handle(), fill(memory, 7));
  upload(device, stream, from, memory.data());
  device.launch(stream.handle(), kernels::device::Fill{1, 9, memory.data() + 1});
  download(device, stream, memory.data(), to);
  expect(finish(device, stream));
  EXPECT_EQ(Values(to.data(), to.data() + 3), (Values{1, 9, 3}));
  EXPECT_EQ(device.counts().kernels, 2U);
  EXPECT_EQ(device.counts().uploads, 1U);
  EXPECT_EQ(device.counts().downloads, 1U);
}

TEST_P(AnyOrder, EventsOrderStreams) {
  FakeDevice device(with_seed(GetParam()));
  const Stream a = expect(Stream::open(device));
  const Stream b = expect(Stream::open(device));
  const Event filled = expect(Event::make(device));
  const Event read_out = expect(Event::make(device));
  const auto memory = memory_of<float, Place::kCard>(device, 1);
  std::vector<PinnedMemory<float>> steps;
  for (int k = 0; k < 5; ++k) {
    device.wait_for(a.handle(), read_out.handle());  // never recorded when k is 0
    device.launch(a.handle(), fill(memory, static_cast<float>(k)));
    device.record(a.handle(), filled.handle());
    device.wait_for(b.handle(), filled.handle());
    steps.push_back(memory_of<float, Place::kPinned>(device, 1));
    download(device, b, memory.data(), steps.back());
    device.record(b.handle(), read_out.handle());
  }
  expect(device.wait(read_out.handle(), in_seconds(60)));
  for (int k = 0; k < 5; ++k) EXPECT_EQ(*steps[static_cast<std::size_t>(k)].data(), k);
}

// The values that one stream reads while another writes them without an event between the two, by
// the seeds 0 to 11.
std::multiset<float> read_without_event(bool reads_first) {
  std::multiset<float> seen;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    FakeDevice device(with_seed(seed));
    const Stream writer = expect(Stream::open(device));
    const Stream reader = expect(Stream::open(device));
    const auto memory = on_card<float>(device, writer, {1});
    const auto to = memory_of<float, Place::kPinned>(device, 1);
    if (reads_first) download(device, reader, memory.data(), to);
    device.launch(writer.handle(), fill(memory, 2));
    if (!reads_first) download(device, reader, memory.data(), to);
    expect(finish(device, reader));
    seen.insert(*to.data());
    expect(finish(device, writer));
  }
  return seen;
}

TEST(FakeDevice, SeedsShowThatAnEventIsMissing) {
  EXPECT_GT(read_without_event(false).count(1), 0U);  // the write came too late
  EXPECT_GT(read_without_event(true).count(2), 0U);   // and here too early
}

TEST(FakeDevice, Trap37AnUploadReadsPinnedMemoryWhenItRuns) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const auto memory = memory_of<float, Place::kCard>(device, 1);
  const auto batch = pinned<float>(device, {1});
  upload(device, stream, batch, memory.data());
  *batch.data() = 2;  // batch k + 1, before batch k has gone
  EXPECT_EQ(read(device, stream, memory), Values{2});
}

TEST(FakeDevice, WaitRunsWhatItsEventNeedsAndNothingElse) {
  FakeDevice device;
  const Stream a = expect(Stream::open(device));
  const Stream b = expect(Stream::open(device));
  const Event half = expect(Event::make(device));
  const auto memory = on_card<float>(device, a, {1, 2});
  const auto first = memory_of<float, Place::kPinned>(device, 1);
  const auto second = memory_of<float, Place::kPinned>(device, 1);
  const auto third = memory_of<float, Place::kPinned>(device, 1);
  download(device, a, memory.data(), first);
  device.record(a.handle(), half.handle());
  download(device, a, memory.data() + 1, second);
  download(device, b, memory.data(), third);
  EXPECT_TRUE(std::isnan(*first.data()));
  expect(device.wait(half.handle(), in_seconds(60)));
  EXPECT_EQ(*first.data(), 1);
  EXPECT_TRUE(std::isnan(*second.data())) << "the event after it was not waited for";
  EXPECT_TRUE(std::isnan(*third.data()));
  EXPECT_TRUE(expect(device.is_done(half.handle())));
  expect(finish(device, a));
  EXPECT_EQ(*second.data(), 2);
  expect(finish(device, b));
}

TEST(FakeDevice, ADownloadDoesNotSpoilWhatAnUploadHasYetToRead) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const auto memory = on_card<float>(device, stream, {1});
  const auto host = pinned<float>(device, {5});
  upload(device, stream, host, memory.data());
  download(device, stream, memory.data(), host);
  expect(finish(device, stream));
  EXPECT_EQ(*host.data(), 5);
}

TEST(FakeDevice, IsDoneComesAfterSomeAsking) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const Event event = expect(Event::make(device));
  EXPECT_TRUE(expect(device.is_done(event.handle()))) << "never recorded";
  const auto memory = memory_of<float, Place::kCard>(device, 1);
  for (int i = 0; i < 3; ++i) device.launch(stream.handle(), fill(memory, 1));
  device.record(stream.handle(), event.handle());
  int asked = 1;
  while (!expect(device.is_done(event.handle()))) ++asked;
  EXPECT_EQ(asked, 4);
}

TEST(FakeDevice, AClosedStreamHasDoneItsOrders) {
  FakeDevice device;
  const Stream other = expect(Stream::open(device));
  const auto memory = memory_of<float, Place::kCard>(device, 1);
  device.launch(expect(Stream::open(device)).handle(), fill(memory, 3));
  EXPECT_EQ(read(device, other, memory), Values{3});
}

TEST(FakeDevice, MemoryHoldsNumbersOnlyOnceWritten) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const auto memory = memory_of<float, Place::kCard>(device, 2);
  for (const float x : read(device, stream, memory)) EXPECT_TRUE(std::isnan(x));
  const auto host = memory_of<double, Place::kPinned>(device, 1);
  EXPECT_TRUE(std::isnan(*host.data()));
}

TEST(FakeDevice, OrdersMayRunOnAnyThreadThatWaits) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    FakeDevice device(with_seed(seed));
    const Stream stream = expect(Stream::open(device));
    const auto memory = memory_of<float, Place::kCard>(device, 1000);
    const auto host = memory_of<float, Place::kPinned>(device, 1000);
    const Event event = expect(Event::make(device));
    const Event last = expect(Event::make(device));
    device.launch(stream.handle(), fill(memory, 1));
    device.record(stream.handle(), event.handle());
    std::thread asks([&] {
      while (!expect(device.is_done(event.handle()))) {
      }
    });
    std::thread waits([&] { expect(device.wait(event.handle(), in_seconds(60))); });
    for (int i = 2; i <= 100; ++i) {
      device.launch(stream.handle(), fill(memory, static_cast<float>(i)));
    }
    download(device, stream, memory.data(), host);
    device.record(stream.handle(), last.handle());
    expect(device.wait(last.handle(), in_seconds(60)));
    EXPECT_EQ(Values(host.data(), host.data() + 1000), Values(1000, 100));
    asks.join();
    waits.join();
  }
}

TEST(FakeDevice, AnOrderThatFailsBreaksTheDevice) {
  for (const std::uint64_t seed : {test::kLate, test::kAtOnce}) {
    FakeDevice device(with_seed(seed));
    const Stream stream = expect(Stream::open(device));
    const Event event = expect(Event::make(device));
    auto memory = memory_of<float, Place::kCard>(device, 1);
    device.fail_order(2);
    device.launch(stream.handle(), fill(memory, 1));
    device.record(stream.handle(), event.handle());
    device.launch(stream.handle(), fill(memory, 2));
    if (seed == test::kLate) expect(device.wait(event.handle(), in_seconds(60)));
    const Status status = finish(device, stream);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "card 0 (Fake) fell off the bus");
    for (const auto& error : {device.wait(event.handle(), in_seconds(60)).error(),
                              device.is_done(event.handle()).error(), device.allocate(4).error(),
                              device.allocate_pinned(4).error(), Stream::open(device).error()}) {
      EXPECT_EQ(error.message, status.error().message);
    }
    device.launch(stream.handle(), fill(memory, 3));  // passed over
  }
}

TEST(FakeDevice, AnOrderThatNeverEndsPassesTheDeadline) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    FakeDevice device(with_seed(seed));
    const Stream stream = expect(Stream::open(device));
    const Stream behind = expect(Stream::open(device));
    const Event event = expect(Event::make(device));
    const auto memory = memory_of<float, Place::kCard>(device, 1);
    device.hang_order(1);
    device.launch(stream.handle(), fill(memory, 1));
    device.record(stream.handle(), event.handle());
    device.wait_for(behind.handle(), event.handle());
    const Status status = device.wait(event.handle(), SteadyClock().now());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kUnreachable);
    EXPECT_FALSE(expect(device.is_done(event.handle())));
    device.record(behind.handle(), event.handle());
    EXPECT_FALSE(device.wait(event.handle(), SteadyClock().now()));
  }
}

TEST(FakeDevice, KernelsTakeTheirIndicesInAnyOrder) {
  std::set<std::vector<std::size_t>> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const std::size_t count : {0U, 1U, 2U, 12U}) {
      std::vector<std::size_t> order;
      test::in_any_order(count, seed, [&](std::size_t i) { order.push_back(i); });
      if (count == 12) orders.insert(order);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(order.size(), count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(order[i], i);
    }
  }
  EXPECT_GT(orders.size(), 10U);
}

}  // namespace
}  // namespace paddle::device
