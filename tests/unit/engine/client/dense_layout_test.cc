#include "engine/client/dense_layout.h"

#include <gtest/gtest.h>

namespace paddle::client {
namespace {

TEST(DenseLayout, AParameterIsDividedByAGapOrAnotherShard) {
  const DensePiece first{0, 0, 8, 0};
  const DensePiece second{0, 8, 8, 8};
  const DensePiece other{1, 0, 4, 8};
  EXPECT_TRUE(is_undivided({{{first, second}}, {16}}));
  EXPECT_TRUE(is_undivided({{{first}, {{1, 0, 4, 0}}}, {8, 4}}));
  EXPECT_FALSE(is_undivided({{{first}, {{0, 8, 8, 0}}}, {8, 8}}));
  EXPECT_FALSE(is_undivided({{{first, other, {0, 8, 8, 12}}}, {20}}));
}

TEST(DenseLayout, GatherFillsAbsentGradientsWithZerosAndGradientsGivesNone) {
  const std::vector<DensePiece> pieces{{0, 2, 3, 0}, {1, 0, 2, 3}};
  const DenseParameter first{0, {}, {1, 2, 3, 4, 5}};
  const DenseParameter second{1, {}, {6, 7}};
  const DenseParameter* const both[] = {&first, &second};
  const auto blocks = gradients(pieces, both);
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].data(), first.gradient.data() + 2);
  EXPECT_EQ(blocks[1].data(), second.gradient.data());
  const DenseParameter* const one[] = {&first, nullptr};
  EXPECT_TRUE(gradients(pieces, one).empty());
  Bytes bytes;
  for (const ByteSpan part : gather(pieces, one, 1, 4)) append_bytes(bytes, part);
  Bytes expected;
  append_bytes(expected, std::span<const float>(std::vector<float>{4, 5, 0, 0}));
  EXPECT_EQ(bytes, expected);
}

}  // namespace
}  // namespace paddle::client
