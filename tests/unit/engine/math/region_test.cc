#include "engine/math/region.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paddle {
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

bool is_there(const std::byte* page) {
  unsigned char result = 0;
  EXPECT_EQ(::mincore(const_cast<std::byte*>(page), MemoryRegion::kPageBytes, &result), 0);
  return (result & 1U) != 0;
}

TEST(MemoryRegion, GivesSmallPagesTogetherWithAFewBehindThem) {
  MemoryRegion region(4 * kMiB);
  ASSERT_TRUE(region.reserve(8 * kMiB));
  if (::madvise(region.data(), MemoryRegion::kPageBytes, 23) != 0) {
    GTEST_SKIP() << "the kernel cannot populate memory";
  }
  region.populate(kMiB);
  EXPECT_TRUE(is_there(region.data() + kMiB - MemoryRegion::kPageBytes));
  const std::size_t given = region.resident(kMiB);
  EXPECT_GT(given, kMiB);
  EXPECT_LE(given, kMiB + kMiB / 16);
  EXPECT_TRUE(is_there(region.data() + given - MemoryRegion::kPageBytes));
  EXPECT_FALSE(is_there(region.data() + given));
  region.populate(given);
  EXPECT_EQ(region.resident(kMiB), given);
  region.release_from(kMiB / 2);
  EXPECT_EQ(region.resident(kMiB / 2), kMiB / 2);
  EXPECT_FALSE(is_there(region.data() + kMiB / 2));
  region.populate(kMiB);
  EXPECT_TRUE(is_there(region.data() + kMiB / 2));
  region.populate(6 * kMiB);  // huge pages are not its matter
  EXPECT_TRUE(is_there(region.data() + 4 * kMiB - MemoryRegion::kPageBytes));
  EXPECT_FALSE(is_there(region.data() + 4 * kMiB));
}

// Records the ranges asked for, as offsets into the region.
class Notes final : public MemoryPreparer {
 public:
  using Ranges = std::vector<std::pair<std::ptrdiff_t, std::size_t>>;
  void prepare(std::byte* begin, std::size_t bytes) override {
    asked.emplace_back((begin - of->data()) / kMiB, bytes / kMiB);
  }
  void forget(const std::byte*, std::size_t) override { ++forgotten; }
  MemoryRegion* of = nullptr;
  Ranges asked;  // MiB
  int forgotten = 0;
};

TEST(MemoryRegion, AsksForHugePagesAheadOnce) {
  Notes notes;
  {
    MemoryRegion region(2 * kMiB, &notes);
    notes.of = &region;
    region.prepare(4 * kMiB, 8 * kMiB);
    EXPECT_EQ(notes.asked, Notes::Ranges());  // not reserved
    ASSERT_TRUE(region.reserve(16 * kMiB));
    region.prepare(0, 2 * kMiB);
    EXPECT_EQ(notes.asked, Notes::Ranges());  // small pages
    region.prepare(5 * kMiB, 7 * kMiB);
    region.prepare(5 * kMiB, 7 * kMiB);
    EXPECT_EQ(notes.asked, (Notes::Ranges{{4, 4}}));
    EXPECT_EQ(region.resident(3 * kMiB), 8 * kMiB);
    region.prepare(3 * kMiB, 9 * kMiB);
    EXPECT_EQ(notes.asked, (Notes::Ranges{{4, 4}, {2, 2}, {8, 2}}));
    region.prepare(12 * kMiB, 13 * kMiB);
    EXPECT_EQ(notes.asked.back(), (std::pair<std::ptrdiff_t, std::size_t>(12, 2)));
    const int before = notes.forgotten;
    region.release_from(3 * kMiB);
    EXPECT_GT(notes.forgotten, before);
    EXPECT_EQ(region.resident(3 * kMiB), 4 * kMiB);
    region.prepare(12 * kMiB, 13 * kMiB);
    EXPECT_EQ(notes.asked.size(), 5U);  // they are gone again
    notes.forgotten = 0;
  }
  EXPECT_EQ(notes.forgotten, 1);
}

TEST(MemoryPreparer, HasPagesGivenBesideTheCaller) {
  const auto preparer = make_memory_preparer();
  MemoryRegion region(0, preparer.get());
  ASSERT_TRUE(region.reserve(16 * kMiB));
  if (::madvise(region.data(), MemoryRegion::kPageBytes, 23) != 0) {
    GTEST_SKIP() << "the kernel cannot populate memory";
  }
  ASSERT_FALSE(is_there(region.data() + 4 * kMiB));
  region.prepare(4 * kMiB, 10 * kMiB);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!is_there(region.data() + 8 * kMiB) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(is_there(region.data() + 4 * kMiB));
  EXPECT_TRUE(is_there(region.data() + 10 * kMiB - MemoryRegion::kPageBytes));
  EXPECT_FALSE(is_there(region.data() + 10 * kMiB));
  EXPECT_EQ(region.data()[5 * kMiB], std::byte{0});
  // A forgotten range is not populated, however long the queue: its pages stay absent.
  for (int i = 0; i < 50; ++i) {
    preparer->prepare(region.data() + 12 * kMiB, 4 * kMiB);
    preparer->forget(region.data() + 12 * kMiB, 4 * kMiB);
    ::madvise(region.data() + 12 * kMiB, 4 * kMiB, MADV_DONTNEED);
    ASSERT_FALSE(is_there(region.data() + 12 * kMiB));
    ASSERT_FALSE(is_there(region.data() + 14 * kMiB));
  }
}

}  // namespace
}  // namespace paddle
