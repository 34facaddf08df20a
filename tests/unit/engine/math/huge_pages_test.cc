#include "engine/math/huge_pages.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(HugePages, OnlyLargeArraysBeginOnAHugePageAndOthersOnALine) {
  constexpr std::uintptr_t kPageBytes = 2U << 20U;
  const auto begin = [](const LargeArray<char>& array) {
    return reinterpret_cast<std::uintptr_t>(array.data());
  };
  // Many blocks, since one may be aligned by chance.
  std::vector<LargeArray<char>> small(64, LargeArray<char>(kHugePagesFrom - 1));
  std::size_t aligned = 0;
  for (const auto& one : small) aligned += begin(one) % kPageBytes == 0 ? 1 : 0;
  EXPECT_LT(aligned, small.size());
  for (const auto& one : small) EXPECT_EQ(begin(one) % kLineBytes, 0U);
  for (const std::size_t size : {kHugePagesFrom, kHugePagesFrom * 7}) {
    EXPECT_EQ(begin(LargeArray<char>(size)) % kPageBytes, 0U) << size;
  }
}

TEST(HugePages, AnArrayThatGrowsKeepsWhatItHolds) {
  LargeArray<std::uint32_t> array;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) array.push_back(i);
  for (std::uint32_t i = 0; i < 1'000'000; ++i) ASSERT_EQ(array[i], i);
  array.resize(10);
  array.shrink_to_fit();
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_EQ(array[i], i);
}

}  // namespace
}  // namespace paddle
