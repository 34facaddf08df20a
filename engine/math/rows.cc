#include "engine/math/rows.h"

#include <algorithm>

#include "base/multiversion.h"
#include "engine/math/row_access.h"

namespace paddle::kernels {

void gather_rows(const float* table, std::span<const std::uint32_t> positions,
                 const RowLayout& layout, float* out) {
  const std::size_t width = layout.width;
  for (std::size_t i = 0; i < positions.size(); out += layout.stride) {
    const std::size_t end = std::min(i + layout.columns, positions.size());
    for (float* row = out; i < end; ++i, row += width) {
      if (positions[i] == kNoRow) {
        std::fill_n(row, width, 0.0F);
      } else {
        copy_row(table + positions[i] * width, width, row);
      }
    }
  }
}

PADDLE_MULTIVERSION
void scatter_add_rows(const float* __restrict rows, const RowLayout& layout,
                      std::span<const std::uint32_t> positions, float scale,
                      const float* __restrict weights, float* __restrict table) {
  const std::size_t width = layout.width;
  for (std::size_t i = 0; i < positions.size(); rows += layout.stride) {
    const std::size_t end = std::min(i + layout.columns, positions.size());
    for (const float* from = rows; i < end; ++i, from += width) {
      if (positions[i] == kNoRow) continue;
      float* row = table + positions[i] * width;
      const float factor = weights == nullptr ? scale : scale * weights[i];
      for (std::size_t c = 0; c < width; ++c) row[c] += factor * from[c];
    }
  }
}

PADDLE_MULTIVERSION
void pool_rows(const float* __restrict table, std::size_t width,
               std::span<const std::uint32_t> positions, float scale,
               const float* __restrict weights, float* __restrict out) {
  std::fill_n(out, width, 0.0F);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] == kNoRow) continue;
    const float* row = table + positions[i] * width;
    const float weight = weights == nullptr ? 1.0F : weights[i];
    for (std::size_t c = 0; c < width; ++c) out[c] += weight * row[c];
  }
  for (std::size_t c = 0; c < width; ++c) out[c] *= scale;
}

PADDLE_MULTIVERSION
void copy_block(std::size_t rows, std::size_t width, const float* __restrict from,
                std::size_t from_stride, float* __restrict to, std::size_t to_stride,
                bool accumulate) {
  for (std::size_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    if (accumulate) {
      for (std::size_t c = 0; c < width; ++c) to[c] += from[c];
    } else {
      std::copy_n(from, width, to);
    }
  }
}

}  // namespace paddle::kernels
