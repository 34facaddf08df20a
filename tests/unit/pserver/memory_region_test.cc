#include "engine/pserver/memory_region.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace paddle::pserver {
namespace {

constexpr std::size_t kMiB = 1U << 20U;

TEST(MemoryRegion, KeepsItsContentWhileItGrowsAndItsPagesBecomeHuge) {
  MemoryRegion region(4 * kMiB);
  const auto number = [&region](std::size_t i) -> std::uint64_t& {
    return reinterpret_cast<std::uint64_t*>(region.data())[i];
  };
  std::size_t filled = 0;
  for (const std::size_t mib : {1U, 3U, 9U, 40U}) {
    ASSERT_TRUE(region.reserve(mib * kMiB));
    ASSERT_GE(region.capacity(), mib * kMiB);
    for (; filled < mib * kMiB / sizeof(std::uint64_t); ++filled) {
      ASSERT_EQ(number(filled), 0U);
      number(filled) = filled * filled;
    }
    region.promote(mib * kMiB);
    region.promote(mib * kMiB);
    for (std::size_t i = 0; i < filled; ++i) ASSERT_EQ(number(i), i * i);
  }
  region.release_from(2 * kMiB);
  EXPECT_EQ(number(2 * kMiB / sizeof(std::uint64_t)), 0U);
  EXPECT_EQ(number(1000), 1'000'000U);
}

}  // namespace
}  // namespace paddle::pserver
