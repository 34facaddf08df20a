#include "engine/pserver/row_index.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace paddle::pserver {
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
      insert(index, id, i);
      model[id] = i;
    } else if (rng.below(2) == 0) {
      index.erase(id);
      model.erase(found);
    } else {
      index.assign(id, i);
      found->second = i;
    }
    ASSERT_EQ(index.size(), model.size());
  }
  for (const auto& [id, number] : model) ASSERT_EQ(index.find(id), number);
  while (model.size() > 100) {
    index.erase(model.begin()->first);
    model.erase(model.begin());
  }
  const std::uint64_t before = index.bytes();
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
  for (std::uint32_t i = kIds; i-- > 0;) insert(falling, i, i);
  for (std::uint32_t i = 0; i < 100; ++i) falling.erase(1'000'000 + i);
  const auto order = scan_all(rising, 1000);
  EXPECT_EQ(order, scan_all(falling, 77));
  EXPECT_EQ(std::set<std::uint64_t>(order.begin(), order.end()).size(), kIds);
}

TEST(RowIndex, HoldsAtMostSixteenBytesAnId) {
  RowIndex index;
  constexpr std::uint32_t kIds = 1'500'000;
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
}  // namespace paddle::pserver
