#include "engine/table/row_index.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

namespace paddle::table {
namespace {

void insert(RowIndex& index, std::uint64_t id, std::uint32_t number) {
  ASSERT_TRUE(index.reserve(1));
  index.make_room(1);
  index.insert(id, number);
}

std::vector<std::uint64_t> scan_all(const RowIndex& index, std::uint64_t wanted) {
  std::vector<std::uint64_t> ids;
  std::vector<RowIndex::Entry> entries;
  std::uint64_t from = 0;
  do {
    entries.clear();
    index.scan(from, wanted, entries);
    for (const RowIndex::Entry& entry : entries) ids.push_back(entry.id);
    if (!entries.empty()) from = entries.back().position + 1;
  } while (entries.size() >= wanted);
  return ids;
}

TEST(RowIndex, EqualsAMapWhileItGrowsAndShrinks) {
  RowIndex index;
  std::map<std::uint64_t, std::uint32_t> model;
  std::vector<std::uint32_t> free;
  Rng rng(5);
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    // Ends of the range, runs of neighbours, and any id; a third of the steps removes one.
    std::uint64_t id = rng.below(3) == 0 ? rng.below(50'000) : rng.next() % 200'000 * 0x10001;
    if (i == 1000) id = 0;
    if (i == 2000) id = ~0ULL;
    const auto found = model.find(id);
    ASSERT_EQ(index.size() == 0 ? RowIndex::kNone : index.find(id),
              found == model.end() ? RowIndex::kNone : found->second);
    if (found == model.end()) {
      auto number = static_cast<std::uint32_t>(model.size() + free.size());
      if (!free.empty()) {
        number = free.back();
        free.pop_back();
      }
      insert(index, id, number);
      model[id] = number;
    } else if (rng.below(2) == 0) {
      free.push_back(found->second);
      index.erase(id);
      model.erase(found);
    }
    ASSERT_EQ(index.size(), model.size());
  }
  for (const auto& [id, number] : model) ASSERT_EQ(index.find(id), number);
  while (model.size() > 100) {
    index.erase(model.begin()->first);
    model.erase(model.begin());
  }
  const std::uint64_t before = index.bytes();
  // The remaining ids get dense numbers again.
  std::uint32_t next = 0;
  index.for_each([&](std::uint64_t id, std::uint32_t& number) { number = model[id] = next++; });
  ASSERT_TRUE(index.fit());
  EXPECT_LT(index.bytes(), before / 10);
  ASSERT_EQ(index.size(), model.size());
  for (const auto& [id, number] : model) ASSERT_EQ(index.find(id), number);
}

TEST(RowIndex, ScanOrderDependsOnTheIdsAlone) {
  RowIndex rising;
  RowIndex falling;
  constexpr std::uint32_t kIds = 20'000;
  for (std::uint32_t i = 0; i < kIds; ++i) insert(rising, i, i);
  for (std::uint32_t i = 0; i < 100; ++i) insert(falling, 1'000'000 + i, i);
  for (std::uint32_t i = kIds; i-- > 0;) insert(falling, i, 100 + kIds - 1 - i);
  for (std::uint32_t i = 0; i < 100; ++i) falling.erase(1'000'000 + i);
  const auto order = scan_all(rising, 1000);
  EXPECT_EQ(order, scan_all(falling, 77));
  EXPECT_EQ(std::set<std::uint64_t>(order.begin(), order.end()).size(), kIds);
}

// An id is identified by its bucket and a part of its hash.
TEST(RowIndex, FindsScansAndForgetsAMillionIds) {
  RowIndex index;
  constexpr std::uint32_t kIds = 900'000;
  for (std::uint32_t i = 0; i < kIds; ++i) {
    insert(index, i * 0x100000001ULL, i);
    if (i % 4096 != 0) continue;
    const std::uint32_t some = i / 4096 * 37 % (i + 1);
    ASSERT_EQ(index.find(some * 0x100000001ULL), some);
    ASSERT_EQ(index.find(i + 5), RowIndex::kNone);
  }
  for (std::uint32_t i = 0; i < kIds; ++i) ASSERT_EQ(index.find(i * 0x100000001ULL), i);
  const auto order = scan_all(index, 10'000);
  ASSERT_EQ(std::set<std::uint64_t>(order.begin(), order.end()).size(), kIds);
  for (const std::uint64_t id : order) ASSERT_EQ(id >> 32U, id & 0xffffffff);
  std::uint64_t sum = 0;
  index.for_each([&](std::uint64_t id, std::uint32_t& number) {
    ASSERT_EQ(id, number * 0x100000001ULL);
    sum += number;
  });
  EXPECT_EQ(sum, kIds * (kIds - 1ULL) / 2);
  for (std::uint32_t i = 0; i < kIds; i += 2) index.erase(i * 0x100000001ULL);
  for (std::uint32_t i = 0; i < kIds; ++i) {
    ASSERT_EQ(index.find(i * 0x100000001ULL), i % 2 == 0 ? RowIndex::kNone : i);
  }
}

// At many sizes, so that different parts of the hash are left out.
TEST(RowIndex, TellsApartIdsWhoseHashesDifferInOneBit) {
  RowIndex index;
  const auto id = [](std::uint64_t i) { return mix64(i); };
  for (std::uint32_t i = 0; i < 400'000; ++i) {
    insert(index, id(i), i);
    if (i % 100 != 0) continue;
    const std::uint64_t hash = RowIndex::hash_of(id(i / 2));
    for (unsigned bit = 0; bit < 64; ++bit) {
      ASSERT_EQ(index.find(id_of_hash(hash ^ 1ULL << bit)), RowIndex::kNone) << i << ' ' << bit;
    }
    ASSERT_EQ(index.find(id(i / 2)), i / 2);
  }
}

// Adversarial ids with one home: 1000 where 15 buckets hold 105.
TEST(RowIndex, KeepsIdsThatAllCollide) {
  RowIndex index;
  constexpr std::uint32_t kIds = 1000;
  const auto id = [](std::uint32_t i) { return id_of_hash((1ULL << 60U) + i); };
  for (std::uint32_t i = 0; i < kIds; ++i) {
    insert(index, id(i), i);
    ASSERT_EQ(index.size(), i + 1);
    ASSERT_EQ(index.find(id(i)), i);
    ASSERT_EQ(index.find(id(i + 1)), RowIndex::kNone);
  }
  // Growth moves them.
  for (std::uint32_t i = kIds; i < 20'000; ++i) insert(index, i, i);
  for (std::uint32_t i = 0; i < kIds; ++i) ASSERT_EQ(index.find(id(i)), i);
  const auto order = scan_all(index, 64);
  ASSERT_EQ(std::set<std::uint64_t>(order.begin(), order.end()).size(), 20'000);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(), [](std::uint64_t a, std::uint64_t b) {
    return RowIndex::hash_of(a) < RowIndex::hash_of(b);
  }));
  for (std::uint32_t i = 1; i < kIds; i += 3) index.erase(id(i));
  for (std::uint32_t i = 0; i < kIds; ++i) {
    ASSERT_EQ(index.find(id(i)), i % 3 == 1 ? RowIndex::kNone : i);
  }
}

TEST(RowIndex, HoldsAtMostSixteenBytesAnId) {
  RowIndex index;
  constexpr std::uint32_t kIds = 3'000'000;
  ASSERT_TRUE(index.reserve(kIds));
  for (std::uint32_t i = 0; i < kIds; ++i) {
    index.make_room(1);
    index.insert(mix64(i), i);
    if (i >= 1'000'000 && i % 1000 == 0) {
      ASSERT_LE(static_cast<double>(index.bytes()), 16.0 * (i + 1)) << i;
    }
  }
}

}  // namespace
}  // namespace paddle::table
