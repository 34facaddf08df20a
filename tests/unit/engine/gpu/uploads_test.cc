#include <gtest/gtest.h>

#include "engine/gpu/arena.h"
#include "tests/support/device/fake_device.h"

namespace paddle::nn {
namespace {

constexpr std::size_t kFloats = 100;
constexpr auto kSoon = std::chrono::seconds(5);

using CardFloats = device::CardMemory<float>;

// Copies a section of the arena to where the step keeps what it reads.
void read_step(device::Device& device, device::StreamHandle stream, const Arena& arena,
               const CardFloats& to) {
  const auto* const from = arena.card<const float>(0);
  device.launch(stream, kernels::device::CopyBlock{
                            .rows = 1, .width = kFloats, .from = {from, 0}, .to = {to.data(), 0}});
}

void expect_steps_read_their_own(std::uint64_t seed) {
  test::FakeDevice device({.seed = seed});
  device::Stream compute = *device::Stream::open(device);
  device::Event done = *device::Event::make(device);
  Uploads uploads = *Uploads::make(device, 1, compute.handle());
  constexpr std::size_t kSteps = 7;
  std::vector<CardFloats> kept;
  for (std::size_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(kept.emplace_back(device).reserve(kFloats));
  }
  for (std::size_t step = 0; step < kSteps; ++step) {
    Arena& arena = **uploads.take(SteadyClock().now() + kSoon);
    arena.use(0, kFloats * sizeof(float), kFloats * sizeof(float));
    ASSERT_TRUE(arena.settle());
    std::fill_n(arena.host<float>(0), kFloats, static_cast<float>(step));
    uploads.send();
    uploads.await();
    read_step(device, compute.handle(), arena, kept[step]);
    uploads.release();
  }
  device::PinnedMemory<float> found(device);
  ASSERT_TRUE(found.reserve(kSteps * kFloats));
  for (std::size_t step = 0; step < kSteps; ++step) {
    device.download(compute.handle(), reinterpret_cast<const std::byte*>(kept[step].data()),
                    reinterpret_cast<std::byte*>(found.data() + step * kFloats),
                    kFloats * sizeof(float));
  }
  device.record(compute.handle(), done.handle());
  ASSERT_TRUE(device.wait(done.handle(), SteadyClock().now() + kSoon));
  for (std::size_t i = 0; i < kSteps * kFloats; ++i) {
    ASSERT_EQ(found.data()[i], static_cast<float>(i / kFloats)) << "order of seed " << seed;
  }
}

TEST(Uploads, Trap37AStepReadsItsOwnInputsHoweverLateItRuns) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) expect_steps_read_their_own(seed);
}

TEST(Uploads, Trap37AStepThatNeverEndsKeepsItsArena) {
  test::FakeDevice device;
  device::Stream compute = *device::Stream::open(device);
  Uploads uploads = *Uploads::make(device, 1, compute.handle());
  device::CardMemory<float> kept(device);
  ASSERT_TRUE(kept.reserve(kFloats));
  device.hang_order(2);  // the kernel of the first step
  for (std::size_t step = 0; step < Uploads::kArenas; ++step) {
    Arena& arena = **uploads.take(SteadyClock().now() + kSoon);
    arena.use(0, kFloats * sizeof(float), kFloats * sizeof(float));
    ASSERT_TRUE(arena.settle());
    uploads.send();
    uploads.await();
    read_step(device, compute.handle(), arena, kept);
    uploads.release();
  }
  const auto refused = uploads.take(SteadyClock().now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnreachable);
}

TEST(Uploads, Trap37AnArenaThatNoStepReadsIsSentBeforeItIsFilledAnew) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    test::FakeDevice device({.seed = seed});
    device::Stream compute = *device::Stream::open(device);
    device::Event done = *device::Event::make(device);
    Uploads uploads = *Uploads::make(device, 1, compute.handle());
    std::vector<CardFloats> kept;
    constexpr std::size_t kSteps = 6;
    for (std::size_t step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(kept.emplace_back(device).reserve(kFloats));
      for (const bool is_given_up : {true, false}) {
        Arena& arena = **uploads.take(SteadyClock().now() + kSoon);
        arena.use(0, kFloats * sizeof(float), kFloats * sizeof(float));
        ASSERT_TRUE(arena.settle());
        std::fill_n(arena.host<float>(0), kFloats, is_given_up ? -1 : static_cast<float>(step));
        uploads.send();
        if (is_given_up) continue;
        uploads.await();
        read_step(device, compute.handle(), arena, kept[step]);
        uploads.release();
      }
    }
    device::PinnedMemory<float> found(device);
    ASSERT_TRUE(found.reserve(kFloats));
    for (std::size_t step = 0; step < kSteps; ++step) {
      device.download(compute.handle(), reinterpret_cast<const std::byte*>(kept[step].data()),
                      reinterpret_cast<std::byte*>(found.data()), kFloats * sizeof(float));
      device.record(compute.handle(), done.handle());
      ASSERT_TRUE(device.wait(done.handle(), SteadyClock().now() + kSoon));
      for (std::size_t i = 0; i < kFloats; ++i) ASSERT_EQ(found.data()[i], step) << seed;
    }
  }
}

// A run is staged, and begun although that failed: it hears why.
TEST(Arena, WhatDoesNotFitIsRefusedAgain) {
  test::FakeDevice device({.card = {0, "Fake", "GPU-fake-0", std::size_t{1} << 20U}});
  Arena arena(device, 2);
  arena.use(1, 1000, 1000);
  for (int i = 0; i < 2; ++i) {
    arena.use(0, 2U << 20U, 2U << 20U);
    const auto refused = arena.settle();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kResource);
  }
  arena.use(0, 1000, 1000);
  const auto moved = arena.settle();
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_TRUE(*moved);
}

TEST(Arena, MovesSectionsThatLieTogetherByOneCopy) {
  test::FakeDevice device({.seed = test::kAtOnce});
  device::Stream stream = *device::Stream::open(device);
  Arena arena(device, 4);
  arena.use(0, 8, 8);
  arena.use(1, 4, 1U << 20U);  // so much room behind it is not copied
  arena.use(2, 0, 64);
  arena.use(3, 4, 4);
  ASSERT_TRUE(*arena.settle());
  *arena.host<std::uint64_t>(0) = 1;
  *arena.host<std::uint32_t>(1) = 2;
  *arena.host<std::uint32_t>(3) = 3;
  arena.upload(stream.handle());
  EXPECT_EQ(device.counts().uploads, 2U);
  *arena.host<std::uint64_t>(0) = 0;
  *arena.host<std::uint32_t>(1) = 0;
  *arena.host<std::uint32_t>(3) = 0;
  arena.download(stream.handle());
  EXPECT_EQ(*arena.host<std::uint64_t>(0), 1U);
  EXPECT_EQ(*arena.host<std::uint32_t>(1), 2U);
  EXPECT_EQ(*arena.host<std::uint32_t>(3), 3U);
  EXPECT_FALSE(*arena.settle()) << "there is room";
  arena.use(2, 65, 65);
  EXPECT_TRUE(*arena.settle());
}

}  // namespace
}  // namespace paddle::nn
