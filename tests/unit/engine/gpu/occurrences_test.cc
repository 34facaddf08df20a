#include "engine/gpu/occurrences.h"

#include <vector>

#include <gtest/gtest.h>

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
  list_occurrences(indices, which, lists.starts, lists.order.data());
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

}  // namespace
}  // namespace paddle::nn
