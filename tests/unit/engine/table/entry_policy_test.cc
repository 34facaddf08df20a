#include "engine/table/entry_policy.h"

#include <gtest/gtest.h>

namespace paddle::table {
namespace {

wire::TablePolicy after_sightings(std::uint32_t count) {
  wire::TablePolicy policy;
  policy.set_entry_count(count);
  return policy;
}

TEST(EntryPolicy, KeepsSightingsApartWhileCandidatesComeAndGo) {
  EntryPolicy entry(after_sightings(3), 1);
  constexpr std::uint64_t kIds = 20'000;
  for (std::uint32_t sighting = 1; sighting <= 3; ++sighting) {
    for (std::uint64_t id = 0; id < kIds; ++id) {
      if (sighting == 1 || id % 4 != 0) {  // a quarter is seen once
        ASSERT_TRUE(entry.reserve(1));
        ASSERT_EQ(entry.admits(id, 0), sighting == 3) << id;
      }
      if (sighting == 3 && id % 4 == 1) {  // others take the numbers that have become free
        ASSERT_TRUE(entry.reserve(1));
        ASSERT_FALSE(entry.admits(kIds + id, 0));
      }
    }
  }
  std::vector<RowIndex::Entry> entries;
  entry.scan(0, 2 * kIds, entries);
  ASSERT_EQ(entries.size(), kIds / 2);
  for (const RowIndex::Entry& found : entries) {
    EXPECT_TRUE(found.id % 4 == 0 || found.id >= kIds) << found.id;
    EXPECT_EQ(entry.candidate(found).sightings, 1);
  }
}

TEST(EntryPolicy, GivesMemoryBackWhenCandidatesExpire) {
  EntryPolicy entry(after_sightings(3), 1);
  constexpr std::uint64_t kIds = 500'000;
  ASSERT_TRUE(entry.reserve(kIds));
  for (std::uint64_t id = 0; id < kIds; ++id) entry.admits(id, id < kIds - 100 ? 0 : 5);
  const std::uint64_t before = entry.bytes();
  ASSERT_TRUE(entry.expire(3, 5));
  EXPECT_EQ(entry.candidates(), 100U);
  EXPECT_LT(entry.bytes(), before / 100);
  ASSERT_TRUE(entry.reserve(1));
  EXPECT_FALSE(entry.admits(1, 5));
  for (std::uint64_t id = kIds - 100; id < kIds; ++id) {
    EXPECT_FALSE(entry.admits(id, 5));
    EXPECT_TRUE(entry.admits(id, 5));
  }
}

// A snapshot of a job with another policy may hold any count.
TEST(EntryPolicy, AdmitsACandidateSeenMoreThanOftenEnough) {
  EntryPolicy entry(after_sightings(3), 1);
  ASSERT_TRUE(entry.reserve(1));
  entry.put({5, 65'535, 0});
  EXPECT_TRUE(entry.admits(5, 0));
}

}  // namespace
}  // namespace paddle::table
