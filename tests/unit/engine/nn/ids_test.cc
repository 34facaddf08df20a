#include "engine/nn/ids.h"

#include <algorithm>
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

}  // namespace
}  // namespace paddle::nn
