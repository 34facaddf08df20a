#include "engine/group/group_layout.h"

#include <gtest/gtest.h>

namespace paddle::strategy {
namespace {

wire::ParameterSet set_with(const std::vector<std::uint64_t>& sizes) {
  wire::ParameterSet set;
  for (const std::uint64_t size : sizes) {
    auto* const spec = set.add_parameters();
    spec->add_dims(size);
    spec->set_sparse(size == 0);
  }
  return set;
}

TEST(GroupLayout, BeginsEveryParameterAtACacheLine) {
  const GroupLayout layout(set_with({5, 0, 17, 1}), 2);
  EXPECT_EQ(layout.elements(), 64U);
  EXPECT_EQ(std::vector<std::uint32_t>(layout.dense().begin(), layout.dense().end()),
            (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_EQ(layout.parameter(2).begin, 16U);
  EXPECT_EQ(layout.parameter(2).end, 33U);
  EXPECT_EQ(layout.parameter(3).begin, 48U);
}

// Trap 11: every element of every bucket has one owner, or all.
TEST(GroupLayout, EveryElementHasAnOwner) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 5U, 7U}) {
    const GroupLayout layout(set_with({3 * kBucketElements + 12'000, 7}), ranks);
    ASSERT_EQ(layout.buckets(), 4U);
    EXPECT_FALSE(layout.is_everyones(0));
    EXPECT_EQ(layout.is_everyones(3), ranks < 3);
    for (std::size_t bucket = 0; bucket < layout.buckets(); ++bucket) {
      std::uint64_t next = layout.bucket(bucket).begin;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const ElementRange slice =
            layout.part(bucket, collective::slice_of(layout.bucket_bytes(bucket), ranks, rank));
        if (layout.is_everyones(bucket)) {
          EXPECT_EQ(slice.begin, layout.bucket(bucket).begin);
          EXPECT_EQ(slice.end, layout.bucket(bucket).end);
          continue;
        }
        EXPECT_EQ(slice.begin, next);
        next = slice.end;
      }
      if (!layout.is_everyones(bucket)) {
        EXPECT_EQ(next, layout.bucket(bucket).end);
      }
    }
  }
}

TEST(GroupLayout, WithoutDenseParametersItIsEmpty) {
  const GroupLayout layout(set_with({0}), 2);
  EXPECT_EQ(layout.elements(), 0U);
  EXPECT_EQ(layout.buckets(), 0U);
}

}  // namespace
}  // namespace paddle::strategy
