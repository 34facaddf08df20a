#include "engine/pserver/memory_region.h"

#include <sys/mman.h>

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

TEST(MemoryRegion, PreparesAHugePageOnce) {
  MemoryRegion region(2 * kMiB);
  EXPECT_FALSE(region.prepare(0));  // not reserved
  ASSERT_TRUE(region.reserve(8 * kMiB));
  EXPECT_FALSE(region.prepare(kMiB));  // small pages
  const auto is_there = [&region](std::size_t offset) {
    unsigned char result = 0;
    EXPECT_EQ(::mincore(region.data() + offset, MemoryRegion::kPageBytes, &result), 0);
    return (result & 1U) != 0;
  };
  ASSERT_FALSE(is_there(4 * kMiB));
  if (!region.prepare(5 * kMiB)) GTEST_SKIP() << "the kernel cannot populate memory";
  EXPECT_TRUE(is_there(4 * kMiB));
  EXPECT_TRUE(is_there(6 * kMiB - MemoryRegion::kPageBytes));
  EXPECT_FALSE(is_there(6 * kMiB));
  EXPECT_FALSE(region.prepare(4 * kMiB));
  EXPECT_EQ(region.data()[5 * kMiB], std::byte{0});
}

}  // namespace
}  // namespace paddle::pserver
