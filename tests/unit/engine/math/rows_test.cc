#include "engine/math/rows.h"

#include <vector>

#include <gtest/gtest.h>

namespace paddle::kernels {
namespace {

const std::vector<float> kTable{1, 2, 10, 20, 100, 200};

TEST(Rows, GatherPlacesRowsAtTheStride) {
  std::vector<float> out(6, -1);
  gather_rows(kTable.data(), std::vector<std::uint32_t>{2, 0}, {2, 1, 3}, out.data());
  EXPECT_EQ(out, (std::vector<float>{100, 200, -1, 1, 2, -1}));
  gather_rows(kTable.data(), std::vector<std::uint32_t>{kNoRow}, {2, 1, 3}, out.data());
  EXPECT_EQ(out, (std::vector<float>{0, 0, -1, 1, 2, -1}));
}

TEST(Rows, SeveralLieSideBySide) {
  std::vector<float> lines(10, -1);
  const std::vector<std::uint32_t> positions{2, 0, 1, kNoRow};
  gather_rows(kTable.data(), positions, {2, 2, 5}, lines.data());
  EXPECT_EQ(lines, (std::vector<float>{100, 200, 1, 2, -1, 10, 20, 0, 0, -1}));
  std::vector<float> table(6, 1);
  const std::vector<float> weights{1, 2, 3, 4};
  scatter_add_rows(lines.data(), {2, 2, 5}, positions, 1, weights.data(), table.data());
  EXPECT_EQ(table, (std::vector<float>{3, 5, 31, 61, 101, 201}));
}

TEST(Rows, ScatterAddsRepeatedPositions) {
  std::vector<float> table(6, 0);
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  scatter_add_rows(rows.data(), {2, 1, 2}, std::vector<std::uint32_t>{1, 1, 0}, 2, nullptr,
                   table.data());
  EXPECT_EQ(table, (std::vector<float>{10, 12, 8, 12, 0, 0}));
  const std::vector<float> weights{0.5F, 9};
  scatter_add_rows(rows.data(), {2, 1, 2}, std::vector<std::uint32_t>{2, kNoRow}, 2, weights.data(),
                   table.data());
  EXPECT_EQ(table, (std::vector<float>{10, 12, 8, 12, 1, 2}));
}

TEST(Rows, PoolSumsAndScalesAndGivesZerosForNothing) {
  std::vector<float> out(2, -1);
  pool_rows(kTable.data(), 2, std::vector<std::uint32_t>{0, 2, 2}, 0.5F, nullptr, out.data());
  EXPECT_EQ(out, (std::vector<float>{100.5F, 201}));
  pool_rows(kTable.data(), 2, {}, 1, nullptr, out.data());
  EXPECT_EQ(out, (std::vector<float>{0, 0}));
  const std::vector<float> weights{3, 7, 0.5F};
  pool_rows(kTable.data(), 2, std::vector<std::uint32_t>{0, kNoRow, 1}, 1, weights.data(),
            out.data());
  EXPECT_EQ(out, (std::vector<float>{8, 16}));
}

TEST(Rows, CopyBlockCopiesOrAdds) {
  std::vector<float> out(4, 1);
  copy_block(2, 1, kTable.data(), 2, out.data() + 1, 2, false);
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 10}));
  copy_block(2, 1, kTable.data(), 2, out.data() + 1, 2, true);
  EXPECT_EQ(out, (std::vector<float>{1, 2, 1, 20}));
}

}  // namespace
}  // namespace paddle::kernels
