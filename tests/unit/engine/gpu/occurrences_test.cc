#include "engine/gpu/occurrences.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/rows.h"

namespace paddle::nn {
namespace {

using kernels::kNoRow;

struct Lists {
  std::vector<std::uint32_t> starts;
  std::vector<std::uint32_t> order;
};

template <class Which>
Lists list(std::vector<std::uint32_t> indices, Which which, std::size_t rows) {
  Lists lists{std::vector<std::uint32_t>(rows + 1, 99), std::vector<std::uint32_t>(indices.size())};
  OccurrenceMemory memory;
  list_occurrences(indices, which, lists.starts, lists.order.data(), memory, nullptr);
  lists.order.resize(lists.starts.back());
  return lists;
}

TEST(Occurrences, Trap38EveryIndexIsNamedOnceInItsOrder) {
  const Lists lists = list({2, 0, kNoRow, 2, 0, 0}, EachIndex{}, 4);
  EXPECT_EQ(lists.starts, (std::vector<std::uint32_t>{0, 3, 3, 5, 5}));
  EXPECT_EQ(lists.order, (std::vector<std::uint32_t>{1, 4, 5, 0, 3}));
}

TEST(Occurrences, Trap38AllIndicesMayBeOneRowOrNone) {
  EXPECT_EQ(list({1, 1, 1}, EachIndex{}, 2).order, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(list({1, 1, 1}, EachIndex{}, 2).starts, (std::vector<std::uint32_t>{0, 0, 3}));
  EXPECT_TRUE(list({kNoRow, kNoRow}, EachIndex{}, 2).order.empty());
  EXPECT_EQ(list({}, EachIndex{}, 2).starts, (std::vector<std::uint32_t>{0, 0, 0}));
  EXPECT_EQ(list({}, EachIndex{}, 0).starts, (std::vector<std::uint32_t>{0}));
}

TEST(Occurrences, MayBeEverySecondIndex) {
  // Weight and bias of each candidate.
  const std::vector<std::uint32_t> indices{1, 0, kNoRow, kNoRow, 1, 2};
  EXPECT_EQ(list(indices, EachIndex{0, 2}, 2).order, (std::vector<std::uint32_t>{0, 2}));
  const Lists biases = list(indices, EachIndex{1, 2}, 3);
  EXPECT_EQ(biases.starts, (std::vector<std::uint32_t>{0, 1, 1, 2}));
  EXPECT_EQ(biases.order, (std::vector<std::uint32_t>{0, 2}));
}

TEST(Occurrences, GroupsOfColumnsComeOneAfterTheOther) {
  // Two examples of four columns, in groups of two.
  const std::vector<std::uint32_t> indices{0, 0, 0, 1, 0, 1, 0, 0};
  const Lists lists = list(indices, GroupedIndices{4, 2}, 2);
  EXPECT_EQ(lists.starts, (std::vector<std::uint32_t>{0, 6, 8}));
  EXPECT_EQ(lists.order, (std::vector<std::uint32_t>{0, 1, 4, 2, 6, 7, 5, 3}));
}

// Lists of a batch that is large enough for buckets and threads. `sequence` are its occurrences in
// the order of additions; row_of(occurrence) is the row of one.
template <class Which, class RowOf>
void expect_lists(const std::vector<std::uint32_t>& indices, Which which, std::size_t rows,
                  std::vector<std::uint32_t> sequence, RowOf row_of) {
  std::erase_if(sequence, [&](std::uint32_t i) { return row_of(i) == kNoRow; });
  std::ranges::stable_sort(sequence, {}, row_of);
  OccurrenceMemory memory;
  for (const std::size_t threads : {1U, 2U, 3U}) {
    ThreadTeam team(threads);
    std::vector<std::uint32_t> starts(rows + 1, 99);
    std::vector<std::uint32_t> order(indices.size());
    list_occurrences(indices, which, starts, order.data(), memory, &team);
    ASSERT_EQ(starts[0], 0U);
    order.resize(starts.back());
    ASSERT_EQ(order, sequence) << rows << " rows, " << threads << " threads";
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = starts[row]; i < starts[row + 1]; ++i) {
        ASSERT_EQ(row_of(order[i]), row);
      }
    }
  }
}

TEST(Occurrences, Trap38ListsOfLargeBatchesDoNotDependOnThreads) {
  for (const std::size_t rows : {1U, 3U, 129U, 20000U, 3000000U}) {
    Rng rng(rows);
    std::vector<std::uint32_t> indices(120000);
    for (std::uint32_t& index : indices) {
      // Half of them are few rows, as in real data.
      index = static_cast<std::uint32_t>(rng.below(rng.below(2) == 0 ? rows : 1 + rows / 1000));
      if (rng.below(10) == 0) index = kNoRow;
    }
    std::vector<std::uint32_t> all(indices.size());
    std::iota(all.begin(), all.end(), 0U);
    const auto at = [&](std::uint32_t i) { return indices[i]; };
    expect_lists(indices, EachIndex{}, rows, all, at);
    const std::vector<std::uint32_t> half(all.begin(), all.begin() + 60000);
    expect_lists(indices, EachIndex{1, 2}, rows, half,
                 [&](std::uint32_t i) { return indices[2 * i + 1]; });
    for (const std::size_t group : {1U, 2U, 6U}) {
      std::vector<std::uint32_t> grouped = all;
      std::ranges::stable_sort(grouped, {}, [&](std::uint32_t i) { return i % 6 / group; });
      expect_lists(indices, GroupedIndices{6, group}, rows, grouped, at);
    }
  }
}

TEST(Occurrences, RowsBecomeTheirNumbers) {
  std::vector<std::uint32_t> few{0, 1, kNoRow, 1, 2, 0};
  const std::vector<std::uint32_t> numbers{7, 5, 9};
  renumber(few, EachIndex{1, 2}, numbers, nullptr);
  EXPECT_EQ(few, (std::vector<std::uint32_t>{0, 5, kNoRow, 5, 2, 7}));
  std::vector<std::uint32_t> many(100001, 2);
  ThreadTeam team(3);
  renumber(many, EachIndex{}, numbers, &team);
  EXPECT_EQ(many, std::vector<std::uint32_t>(100001, 9));
}

}  // namespace
}  // namespace paddle::nn
