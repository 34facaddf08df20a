// Kernels of a card for softmax and costs, a warp a row of the run. Gradients have the CPU's bits.
// The cost of a row of softmax may differ in the last bit of its logarithm; other costs are summed
// in lanes, where the CPU adds the outputs in order: relatively, 1e-12 apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cost_formulas.h"
#include "engine/kernels/device/shape.h"

namespace paddle::kernels::device {

// The largest value; NaN only where the first one is.
template <class Warp>
PADDLE_HD float largest_of(const Warp& warp, std::size_t width, const float* x) {
  return warp.template reduce<float>(
      width, x[0], [=](std::size_t c) { return x[c]; },
      [](float a, float b) { return b > a ? b : a; });
}

// y = softmax of each row, in place.
struct SoftmaxRows {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float* y = nullptr;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    float* const row = y + index * width;
    const float shift = largest_of(warp, width, row);
    const float sum = warp.sum(width, [=](std::size_t c) {
      row[c] = exponential(row[c] - shift);
      return row[c];
    });
    const float factor = 1.0F / sum;
    warp.each(width, [=](std::size_t c) { row[c] *= factor; });
  }
};
struct SoftmaxRowsBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* y = nullptr;
  float* gradient = nullptr;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const kept = y + index * width;
    float* const slope = gradient + index * width;
    const float mean = warp.sum(width, [=](std::size_t c) { return slope[c] * kept[c]; });
    warp.each(width, [=](std::size_t c) { slope[c] = softmax_slope_of(kept[c], slope[c], mean); });
  }
};

// op::SoftmaxCrossEntropy. Where gradient.first is null, none is written.
struct SoftmaxCrossEntropy {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  const std::uint32_t* classes = nullptr;
  float cost_scale = 0;
  ConstRows logits;
  Rows gradient;
  double* costs = nullptr;  // of each row
  std::uint32_t* predictions = nullptr;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const x = logits.row(index);
    const std::size_t label = classes[index];
    const float shift = largest_of(warp, width, x);
    const auto last = static_cast<std::uint32_t>(width - 1);
    const std::uint32_t first = warp.template reduce<std::uint32_t>(
        width, last,
        [=](std::size_t c) { return x[c] == shift ? static_cast<std::uint32_t>(c) : last; },
        [](std::uint32_t a, std::uint32_t b) { return b < a ? b : a; });
    const float sum = warp.sum(width, [=](std::size_t c) { return exponential(x[c] - shift); });
    warp.once([&] {
      predictions[index] = first;
      costs[index] = softmax_cost_of(sum, shift, x[label]);
    });
    if (gradient.first == nullptr) return;
    float* const slope = gradient.row(index);
    const float factor = cost_scale / sum;
    warp.each(width, [&](std::size_t c) {
      const float value = exponential(x[c] - shift) * factor;
      slope[c] = c == label ? value - cost_scale : value;
    });
  }
};

// Costs that are sums over the outputs of a row, each by Formula::of(output, label, scale).
template <class Formula>
struct OutputCosts {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float cost_scale = 0;
  ConstRows x;
  ConstRows labels;
  Rows gradient;  // null: none is written
  double* costs = nullptr;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const float* const output = x.row(index);
    const float* const label = labels.row(index);
    float* const slope = gradient.first == nullptr ? nullptr : gradient.row(index);
    const float scale = cost_scale;
    const double cost = warp.sum_double(width, [=](std::size_t c) {
      const ElementCost one = Formula::of(output[c], label[c], scale);
      if (slope != nullptr) slope[c] = one.slope;
      return one.cost;
    });
    warp.once([&] { costs[index] = cost; });
  }
};

struct BinaryCrossEntropyFormula {
  PADDLE_HD static ElementCost of(float x, float label, float scale) {
    return binary_cross_entropy_of(x, label, scale);
  }
};
struct SquaredErrorFormula {
  PADDLE_HD static ElementCost of(float x, float label, float scale) {
    return squared_error_of(x, label, scale);
  }
};
// op::BinaryCrossEntropy and op::SquaredError.
using BinaryCrossEntropy = OutputCosts<BinaryCrossEntropyFormula>;
using SquaredError = OutputCosts<SquaredErrorFormula>;

// sums[i] = costs[i * chunk] + ... in lanes: a warp for each chunk. The sums are summed up by the
// same kernel, with one chunk.
constexpr std::size_t kCostChunk = 1024;
constexpr std::size_t cost_chunk_count(std::size_t size) {
  return (size + kCostChunk - 1) / kCostChunk;
}
struct SumCosts {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t size = 0;
  const double* costs = nullptr;
  double* sum = nullptr;
  std::size_t chunk = 0;  // 0: all in one
  PADDLE_HD std::size_t count() const { return chunk == 0 ? 1 : (size + chunk - 1) / chunk; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const std::size_t begin = index * chunk;
    const std::size_t end = chunk == 0 || begin + chunk > size ? size : begin + chunk;
    const double* const of = costs + begin;
    const double all = warp.sum_double(end - begin, [=](std::size_t i) { return of[i]; });
    warp.once([&] { sum[index] = all; });
  }
};

}  // namespace paddle::kernels::device
