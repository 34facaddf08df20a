// Kernels of a card for sums over rows of the run. Their order of additions is not the CPU's, but
// it is the same in every run.
#pragma once

#include <cstddef>

#include "engine/math/card_elementwise.h"
#include "engine/math/card_shape.h"
#include "engine/math/formulas.h"

namespace paddle::kernels::device {

// to = the sums of columns over rows, or += when accumulate: each chunk of rows is summed in order,
// then the chunks in order. One warp sums one chunk of a block of kWarpLanes columns; the last warp
// of the block adds up the chunks. Terms::sum(begin, end, column) adds up the rows of a chunk.
//
// Small chunks give a card enough warps; many chunks take the last warp long. Both depend on the
// number of rows alone, so equal batches have equal bits.
// INVARIANT: no batch has more chunks than the next power of two of its rows.
constexpr std::size_t kChunkRowsMin = 32;
constexpr std::size_t kChunkRowsMax = 256;
constexpr std::size_t kChunksWanted = 256;
constexpr std::size_t chunk_rows(std::size_t rows) {
  std::size_t each = kChunkRowsMin;
  while (each < kChunkRowsMax && each * kChunksWanted < rows) each *= 2;
  return each;
}
constexpr std::size_t chunk_count(std::size_t rows) {
  return rows == 0 ? 1 : (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}
// term(begin) + ... + term(end - 1) in this order. load(i) returns what term(i, loaded) needs.
template <class Loaded, std::size_t kAhead = kLoadsAhead, class Load, class Term>
PADDLE_HD_INLINE float sum_ahead(float sum, std::size_t begin, std::size_t end, Load load,
                                 Term term) {
  std::size_t i = begin;
  for (; end - i >= kAhead; i += kAhead) {
    Loaded loaded[kAhead];
    for (std::size_t k = 0; k < kAhead; ++k) loaded[k] = load(i + k);
    for (std::size_t k = 0; k < kAhead; ++k) sum += term(i + k, loaded[k]);
  }
  for (; i < end; ++i) sum += term(i, load(i));
  return sum;
}
constexpr std::size_t column_blocks(std::size_t width) {
  return (width + kWarpLanes - 1) / kWarpLanes;
}
template <class Terms>
struct ColumnSums {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  Terms terms;
  float* chunks = nullptr;            // chunk_count(rows) x width
  std::uint32_t* counters = nullptr;  // one for each block of columns, for is_last()
  float* to = nullptr;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return chunk_count(rows) * column_blocks(width); }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const Position at = position_of(index, column_blocks(width));  // row: the chunk
    const std::size_t first = at.column * kWarpLanes;
    const std::size_t columns = width - first < kWarpLanes ? width - first : kWarpLanes;
    const std::size_t each = chunk_rows(rows);
    const std::size_t begin = at.row * each;
    const std::size_t end = begin + each < rows ? begin + each : rows;
    warp.each(columns, [&](std::size_t c) {
      chunks[at.row * width + first + c] = terms.sum(begin, end, first + c);
    });
    const std::size_t all = chunk_count(rows);
    if (!warp.is_last(counters + at.column, all)) return;
    warp.each(columns, [&](std::size_t c) {
      const std::size_t column = first + c;
      to[column] = sum_ahead<float>(
          accumulate ? to[column] : 0.0F, 0, all,
          [&](std::size_t i) { return chunks[i * width + column]; },
          [](std::size_t, float sum) { return sum; });
    });
  }
};

// Terms of the gradient of a layer's bias: the gradient of the layer's outputs. If the layer has a
// function, this gradient is first multiplied by f'(kept) in place, with `kept` as in
// Activation::backward.
struct SlopeTerms {
  Rows gradient;
  Function function = Function::kSigmoid;
  ConstRows kept = {};  // null: there is no function
  PADDLE_HD float sum(std::size_t begin, std::size_t end, std::size_t column) const {
    if (kept.first == nullptr) {
      return sum_ahead<float>(
          0, begin, end, [&](std::size_t r) { return gradient.row(r)[column]; },
          [](std::size_t, float slope) { return slope; });
    }
    struct Loaded {
      float slope;
      float kept;
    };
    float sum = 0;
    with_function(function, [&](auto of) {
      sum = sum_ahead<Loaded, 4>(  // 8 need more registers than there are
          0, begin, end,
          [&](std::size_t r) {
            return Loaded{gradient.row(r)[column], kept.row(r)[column]};
          },
          [&](std::size_t r, const Loaded& loaded) {
            return gradient.row(r)[column] = of.backward(loaded.kept, loaded.slope);
          });
    });
    return sum;
  }
};
using SlopeSums = ColumnSums<SlopeTerms>;

// Terms of the gradient of a layer norm's gain: gradient * (x - mean) * inverse.
struct GainTerms {
  std::size_t width = 0;
  const float* x = nullptr;
  const float* statistics = nullptr;
  const float* gradient = nullptr;
  PADDLE_HD float sum(std::size_t begin, std::size_t end, std::size_t column) const {
    struct Loaded {
      LayerNormRow row;
      float x;
      float gradient;
    };
    return sum_ahead<Loaded>(
        0, begin, end,
        [&](std::size_t r) {
          const std::size_t i = r * width + column;
          return Loaded{{statistics[2 * r], statistics[2 * r + 1]}, x[i], gradient[i]};
        },
        [](std::size_t, const Loaded& of) { return of.gradient * of.row.normal(of.x); });
  }
};
using GainSums = ColumnSums<GainTerms>;

// c = a b with a m x k and b k x n, packed, where n is at most kThinColumns: libraries are slow at
// such products. Then the bias is added, then relu. One warp computes one row.
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
  const float* bias = nullptr;  // optional
  bool relu = false;
  PADDLE_HD std::size_t count() const { return m; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const row = a + index * k;
    for (std::size_t j = 0; j < n; ++j) {
      const float sum = warp.sum(k, [&](std::size_t i) { return row[i] * b[i * n + j]; });
      warp.once([&] {
        float& to = c.row(index)[j];
        put(sum, accumulate, to);
        if (bias != nullptr) to += bias[j];
        if (relu) to = Relu::apply(to);
      });
    }
  }
};

}  // namespace paddle::kernels::device
