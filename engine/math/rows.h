// Gathering of table rows by position, and scatter-add of their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::kernels {

// Position that stands for no row: gathers zeros; its gradient is not scattered.
constexpr std::uint32_t kNoRow = 0xffffffffU;

// Layout of rows of `width` values outside their table: `columns` rows side by side make a line,
// and lines begin `stride` values apart.
struct RowLayout {
  std::size_t width = 0;
  std::size_t columns = 1;
  std::size_t stride = 0;
};

// Row i of `out` = table[positions[i]].
void gather_rows(const float* table, std::span<const std::uint32_t> positions,
                 const RowLayout& layout, float* out);
// table[positions[i]] += row i of `rows` * scale * weights[i], in the order of i; null weights are
// all 1.
void scatter_add_rows(const float* rows, const RowLayout& layout,
                      std::span<const std::uint32_t> positions, float scale, const float* weights,
                      float* table);
// out[0 .. width) = scale * sum of table[positions[i]] * weights[i], in the order of i; zeros for
// no positions; null weights are all 1.
void pool_rows(const float* table, std::size_t width, std::span<const std::uint32_t> positions,
               float scale, const float* weights, float* out);
// Copies (or adds, when accumulate) a rows x width block between buffers of different row strides.
void copy_block(std::size_t rows, std::size_t width, const float* from, std::size_t from_stride,
                float* to, std::size_t to_stride, bool accumulate);

}  // namespace paddle::kernels
