// Kernels of a card for sums over rows of the run. Their order of additions is not the CPU's, but
// the same in each run.
#pragma once

#include <cstddef>

#include "engine/kernels/device/shape.h"
#include "engine/kernels/row_formulas.h"

namespace paddle::kernels::device {

// Sums of columns over rows, in two kernels: each chunk of kChunkRows rows in order, then the
// chunks in order.
constexpr std::size_t kChunkRows = 256;
constexpr std::size_t chunk_count(std::size_t rows) {
  return (rows + kChunkRows - 1) / kChunkRows;
}
template <class Term>
PADDLE_HD float sum_of_chunk(std::size_t chunk, std::size_t rows, Term term) {
  const std::size_t begin = chunk * kChunkRows;
  const std::size_t end = begin + kChunkRows < rows ? begin + kChunkRows : rows;
  float sum = 0;
  for (std::size_t r = begin; r < end; ++r) sum += term(r);
  return sum;
}
struct ChunkSums {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows from;
  float* chunks = nullptr;  // chunk_count(rows) x width
  PADDLE_HD std::size_t count() const { return chunk_count(rows) * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    chunks[index] =
        sum_of_chunk(at.row, rows, [&](std::size_t r) { return from.row(r)[at.column]; });
  }
};
// The terms of the gradients of a layer norm's gain, gradient * (x - mean) * inverse.
struct GainChunkSums {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* x = nullptr;
  const float* statistics = nullptr;
  const float* gradient = nullptr;
  float* chunks = nullptr;
  PADDLE_HD std::size_t count() const { return chunk_count(rows) * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    chunks[index] = sum_of_chunk(at.row, rows, [&](std::size_t r) {
      const LayerNormRow row{statistics[2 * r], statistics[2 * r + 1]};
      const std::size_t i = r * width + at.column;
      return gradient[i] * row.normal(x[i]);
    });
  }
};
// to = the sum of the chunks, or += when accumulate.
struct SumChunks {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t chunks = 0;
  std::size_t width = 0;
  const float* from = nullptr;
  float* to = nullptr;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return width; }
  PADDLE_HD void operator()(std::size_t index) const {
    float sum = accumulate ? to[index] : 0.0F;
    for (std::size_t i = 0; i < chunks; ++i) sum += from[i * width + index];
    to[index] = sum;
  }
};

// c = a b with a m x k and b k x n, packed, where n is at most kThinColumns: no library computes
// that well. A warp for each row.
constexpr std::size_t kThinColumns = 4;
struct ThinProduct {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  Rows c;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return m; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const row = a + index * k;
    for (std::size_t j = 0; j < n; ++j) {
      const float sum = warp.sum(k, [&](std::size_t i) { return row[i] * b[i * n + j]; });
      warp.once([&] { put(sum, accumulate, c.row(index)[j]); });
    }
  }
};

}  // namespace paddle::kernels::device
