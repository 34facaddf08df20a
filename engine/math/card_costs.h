// Kernels of a card for softmax and costs, with one warp for each row of the run. Gradients and the
// cost of a row of softmax have the same bits as on the CPU. Other costs are summed in lanes, while
// the CPU adds the outputs in order: the relative difference is about 1e-12.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/math/card_shape.h"
#include "engine/math/formulas.h"

namespace paddle::kernels::device {

// The largest value; NaN only if the first value is NaN.
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

// *sum = costs[0] + ..., in chunks of kCostChunk costs. Each chunk is summed in lanes, then the
// sums of the chunks are summed in lanes.
constexpr std::size_t kCostChunk = 1024;
constexpr std::size_t cost_chunk_count(std::size_t size) {
  return (size + kCostChunk - 1) / kCostChunk;
}
struct CostSum {
  double* costs = nullptr;
  double* chunks = nullptr;           // cost_chunk_count(size) sums
  std::uint32_t* counters = nullptr;  // 1 + one for each chunk, for Warp::is_last
  double* sum = nullptr;

  // Called by each warp when it has written a cost. The last warp of a chunk adds up the chunk.
  template <class Warp>
  PADDLE_HD void add(const Warp& warp, std::size_t index, std::size_t size) const {
    const std::size_t chunk = index / kCostChunk;
    if (warp.is_last(counters + 1 + chunk, end_of(chunk, size) - chunk * kCostChunk)) {
      add_chunk(warp, chunk, size);
    }
  }
  template <class Warp>
  PADDLE_HD void add_chunk(const Warp& warp, std::size_t chunk, std::size_t size) const {
    const double* const of = costs + chunk * kCostChunk;
    const double of_chunk = warp.sum_double(end_of(chunk, size) - chunk * kCostChunk,
                                            [=](std::size_t i) { return of[i]; });
    warp.once([&] { chunks[chunk] = of_chunk; });
    const std::size_t all = cost_chunk_count(size);
    if (!warp.is_last(counters, all)) return;
    const double* const sums = chunks;
    const double total = warp.sum_double(all, [=](std::size_t i) { return sums[i]; });
    warp.once([&] { *sum = total; });
  }

 private:
  PADDLE_HD static std::size_t end_of(std::size_t chunk, std::size_t size) {
    const std::size_t end = (chunk + 1) * kCostChunk;
    return end < size ? end : size;
  }
};
// Adds up costs that an earlier kernel has written, with one warp for each chunk.
struct SumCosts {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t size = 0;
  CostSum costs;
  PADDLE_HD std::size_t count() const { return cost_chunk_count(size); }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    costs.add_chunk(warp, index, size);
  }
};

// op::SoftmaxCrossEntropy. If gradient.first is null, no gradient is written.
struct SoftmaxCrossEntropy {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  const std::uint32_t* classes = nullptr;
  float cost_scale = 0;
  ConstRows logits;
  Rows gradient;
  CostSum costs;  // one for each row
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
      costs.costs[index] = softmax_cost_of(sum, shift, x[label]);
    });
    costs.add(warp, index, rows);
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
  Rows gradient;  // null: it is not written
  CostSum costs;  // one for each row
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
    warp.once([&] { costs.costs[index] = cost; });
    costs.add(warp, index, rows);
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

}  // namespace paddle::kernels::device
