// Kernels of a card that compute row by row of the run, with one warp for each row. Their results
// equal the CPU's, bit for bit.
#pragma once

#include <cmath>
#include <cstddef>

#include "engine/math/card_shape.h"
#include "engine/math/formulas.h"

namespace paddle::kernels::device {

// op::LayerNorm; statistics: two floats per row.
struct LayerNorm {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float epsilon = 0;
  const float* x = nullptr;
  const float* gain = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  float* statistics = nullptr;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const from = x + index * width;
    float* const to = y + index * width;
    const auto number = static_cast<float>(width);
    const float mean = warp.sum(width, [=](std::size_t c) { return from[c]; }) / number;
    const float variance = warp.sum(width, [=](std::size_t c) {
      return (from[c] - mean) * (from[c] - mean);
    }) / number;
    const LayerNormRow row{mean, LayerNormRow::inverse_of(variance, epsilon)};
    warp.each(width, [&](std::size_t c) { to[c] = row.apply(from[c], gain[c], bias[c]); });
    warp.once([&] {
      statistics[2 * index] = row.mean;
      statistics[2 * index + 1] = row.inverse;
    });
  }
};
// The gradient of x. The gradients of gain and bias are computed by ColumnSums (card_sums.h).
struct LayerNormBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* x = nullptr;
  const float* gain = nullptr;
  const float* statistics = nullptr;
  const float* gradient = nullptr;
  float* x_gradient = nullptr;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const from = x + index * width;
    const float* const of = gradient + index * width;
    float* const to = x_gradient + index * width;
    const auto number = static_cast<float>(width);
    const LayerNormRow row{statistics[2 * index], statistics[2 * index + 1]};
    const float slope = warp.sum(width, [&](std::size_t c) { return of[c] * gain[c]; }) / number;
    const float tilt = warp.sum(width, [&](std::size_t c) {
      return of[c] * gain[c] * row.normal(from[c]);
    }) / number;
    warp.each(width, [&](std::size_t c) {
      put(row.backward(from[c], gain[c], of[c], slope, tilt), accumulate, to[c]);
    });
  }
};

// op::PairSum and its backward.
constexpr std::size_t kFieldBlocksMax = 16;
struct PairSum {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t factors = 0;
  std::size_t blocks = 0;  // 1 to kFieldBlocksMax
  ConstRows from[kFieldBlocksMax];
  std::size_t fields[kFieldBlocksMax] = {};
  Rows to;
  Rows sums;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    float* const kept = sums.row(index);
    const float sum = warp.sum(factors, [&](std::size_t c) {
      float all = 0;
      float squares = 0;
      for (std::size_t b = 0; b < blocks; ++b) {
        const float* v = from[b].row(index) + c;
        for (std::size_t f = 0; f < fields[b]; ++f, v += factors) {
          all += *v;
          squares += *v * *v;
        }
      }
      kept[c] = all;
      return pair_term_of(all, squares);
    });
    warp.once([&] { to.row(index)[0] = 0.5F * sum; });
  }
};
struct PairSumBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t factors = 0;
  std::size_t fields = 0;
  ConstRows from;
  ConstRows sums;
  ConstRows gradient;
  Rows to;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const v = from.row(index);
    const float* const sum = sums.row(index);
    const float slope = gradient.row(index)[0];
    float* const out = to.row(index);
    warp.each(fields * factors, [&](std::size_t i) {
      put(pair_slope_of(sum[position_of(i, factors).column], v[i], slope), accumulate, out[i]);
    });
  }
};

template <class Warp>
PADDLE_HD Cosine cosine_of(const Warp& warp, std::size_t width, const float* a, const float* b) {
  const float dot = warp.sum(width, [=](std::size_t c) { return a[c] * b[c]; });
  const float a_square = warp.sum(width, [=](std::size_t c) { return a[c] * a[c]; });
  const float b_square = warp.sum(width, [=](std::size_t c) { return b[c] * b[c]; });
  return {dot, std::sqrt(a_square), std::sqrt(b_square)};
}

// op::CosineSimilarity and its backward.
struct CosineSimilarity {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float scale = 1;
  ConstRows a;
  ConstRows b;
  Rows to;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const Cosine cosine = cosine_of(warp, width, a.row(index), b.row(index));
    warp.once([&] { to.row(index)[0] = scale * cosine.value(); });
  }
};
struct CosineSimilarityBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float scale = 1;
  ConstRows from;
  ConstRows other;
  ConstRows gradient;
  Rows to;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const v = from.row(index);
    const float* const w = other.row(index);
    float* const out = to.row(index);
    const CosineSlope along(cosine_of(warp, width, v, w), scale * gradient.row(index)[0]);
    warp.each(width, [&](std::size_t c) { put(along.apply(v[c], w[c]), accumulate, out[c]); });
  }
};

}  // namespace paddle::kernels::device
