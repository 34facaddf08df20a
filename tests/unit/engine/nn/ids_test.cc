#include "engine/nn/ids.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace paddle::nn {
namespace {

TEST(Ids, AreSortedAndUniqueAndFound) {
  for (const std::size_t count : {0U, 1U, 2U, 100U, 5000U, 100000U}) {
    for (const std::uint64_t mask : {std::uint64_t{0xff}, std::uint64_t{0xfffff}, ~std::uint64_t{0},
                                     std::uint64_t{0xff000000000000ff}}) {
      Rng rng(count);
      std::vector<std::uint64_t> ids;
      for (std::size_t i = 0; i < count; ++i) ids.push_back((rng.next() & mask) + 5);
      const std::set<std::uint64_t> known(ids.begin(), ids.end());
      sort_unique(ids);
      ASSERT_EQ(ids, std::vector<std::uint64_t>(known.begin(), known.end())) << count;
      RowLookup lookup;
      lookup.build(std::vector<std::uint64_t>{3});
      lookup.build(ids);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ASSERT_EQ(row_of(ids, ids[i]), i);
        ASSERT_EQ(lookup(ids[i]), i);
      }
    }
  }
}

// Slots of a few and of many ids; of few and of many distinct ones, which are small, or hashes, or
// near the id that stands for none.
TEST(Ids, OfSeveralSlotsAreTheSameOnAnyNumberOfThreads) {
  const auto id_of = [](Rng& rng, std::uint64_t below) {
    const bool is_small = below % 2 == 1;
    return below == 0 ? rng.next() : is_small ? rng.below(below) : 0 - rng.below(below);
  };
  std::map<std::size_t, TableReads> reads_of;  // each finds its memory of before
  for (const std::size_t count : {0U, 3U, 5000U, 70000U, 700U, 20000U}) {
    for (const std::uint64_t below : {2U, 3U, 300U, 301U, 30000U, 30001U, 2000001U, 0U}) {
      Rng rng(count + below);
      std::vector<std::vector<std::uint64_t>> slots(4);
      std::set<std::uint64_t> known;
      for (auto& slot : slots) {
        for (std::size_t i = 0; i < count; ++i) {
          slot.push_back(id_of(rng, below));
        }
        slot.resize(slot.size() / (&slot - slots.data() + 1));
        known.insert(slot.begin(), slot.end());
      }
      for (const std::size_t threads : {1U, 2U, 3U, 5U}) {
        ThreadTeam team(threads);
        TableReads& reads = reads_of[threads];
        std::vector<std::uint64_t> ids{7};
        for (const auto& slot : std::span(slots).subspan(1)) reads.add(slot);
        reads.own() = slots[0];
        reads.sort_into(ids, threads == 1 ? nullptr : &team);
        ASSERT_EQ(ids, std::vector<std::uint64_t>(known.begin(), known.end()))
            << count << " ids below " << below << ", " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace paddle::nn
