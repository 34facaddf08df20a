#include "engine/gpu/handles.h"

#include <cstddef>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/device/fake_device.h"

namespace paddle::device {
namespace {

// The device itself counts what is released, twice or never.
TEST(Handles, MoveAndReleaseOnce) {
  test::FakeDevice device;
  auto first = Stream::open(device);
  auto second = Stream::open(device, Device::Urgency::kHigh);
  ASSERT_TRUE(first && second);
  const StreamHandle handle = first->handle();
  Stream moved = *std::move(first);
  EXPECT_EQ(moved.handle(), handle);
  EXPECT_EQ(first->handle(), StreamHandle{});  // NOLINT: moved from
  *second = std::move(moved);
  EXPECT_EQ(second->handle(), handle);

  auto event = Event::make(device);
  auto other = Event::make(device);
  ASSERT_TRUE(event && other);
  *event = *std::move(other);

  device.begin_capture(handle);
  auto captured = device.end_capture(handle);
  ASSERT_TRUE(captured);
  Graph graph(device, *captured);
  Graph taken = std::move(graph);
  EXPECT_EQ(taken.handle().value, captured->value);
  Graph& same = taken;
  taken = std::move(same);
  EXPECT_EQ(taken.handle().value, captured->value);
}

TEST(Handles, MemoryMovesOnlyWhereItMustGrow) {
  test::FakeDevice device;
  CardMemory<float> memory(device);
  EXPECT_EQ(memory.data(), nullptr);
  ASSERT_TRUE(memory.reserve(0));
  auto moved = memory.reserve(100);
  ASSERT_TRUE(moved);
  EXPECT_TRUE(*moved);
  EXPECT_EQ(device.memory_used(), 400U);
  float* const data = memory.data();
  moved = memory.reserve(50);
  ASSERT_TRUE(moved);
  EXPECT_FALSE(*moved);
  EXPECT_EQ(memory.data(), data);
  EXPECT_EQ(memory.capacity(), 100U);
  moved = memory.reserve(101);
  ASSERT_TRUE(moved);
  EXPECT_TRUE(*moved);
  EXPECT_EQ(device.memory_used(), 404U);
  EXPECT_EQ(device.memory_most(), 404U);  // the old one goes first

  CardMemory<float> other = std::move(memory);
  EXPECT_EQ(memory.data(), nullptr);  // NOLINT: moved from
  EXPECT_EQ(memory.capacity(), 0U);
  memory = std::move(other);
  EXPECT_EQ(memory.capacity(), 101U);
}

TEST(Handles, Trap33ACardWithoutMemoryLeftIsNamed) {
  test::FakeDeviceOptions options;
  options.card.memory_bytes = 1000;
  test::FakeDevice device(options);
  CardMemory<float> memory(device);
  ASSERT_TRUE(memory.reserve(200));
  auto grown = memory.reserve(300);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().code, Errc::kResource);
  EXPECT_EQ(grown.error().message, "card 0 (Fake) has 1000 bytes of memory left; 1200 are needed");
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_EQ(memory.capacity(), 0U);
  EXPECT_EQ(device.memory_used(), 0U);
}

TEST(Handles, PinnedMemoryIsTheHosts) {
  test::FakeDevice device;
  PinnedMemory<int> memory(device);
  ASSERT_TRUE(memory.reserve(3));
  memory.data()[2] = 7;
  EXPECT_EQ(memory.data()[2], 7);
  EXPECT_EQ(device.memory_used(), 0U);
}

}  // namespace
}  // namespace paddle::device
