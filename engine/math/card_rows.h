// Kernels of a card that read rows of tables and sum their gradients. The host decides the order of
// the terms of each sum (Occurrences::order), so the bits equal the CPU's and no sum needs an
// atomic operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/math/card_shape.h"
#include "engine/math/formulas.h"
#include "engine/math/rows.h"

namespace paddle::kernels::device {

// op::Gather
struct Gather {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t columns = 0;
  const std::uint32_t* indices = nullptr;  // rows * columns
  const float* weights = nullptr;          // one for each index; null: all 1
  const float* table = nullptr;
  Rows to;
  PADDLE_HD std::size_t count() const { return rows * columns * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, columns * width);
    const Position of = position_of(at.column, width);
    const std::size_t number = at.row * columns + of.row;
    const std::uint32_t row = indices[number];
    float value = 0;
    if (row != kNoRow) {
      value = table[row * width + of.column];
      if (weights != nullptr) value = 0.0F + weights[number] * value;
    }
    to.at(at) = value;
  }
};

// sum + weight_at(begin) * table[row_at(begin)][column] + ... in this order, up to end - 1. kNoRow
// adds nothing.
template <class RowAt, class WeightAt>
PADDLE_HD_INLINE float add_rows(float sum, std::size_t begin, std::size_t end, RowAt row_at,
                                WeightAt weight_at, const float* table, std::size_t width,
                                std::size_t column) {
  std::size_t i = begin;
  for (; end - i >= kLoadsAhead; i += kLoadsAhead) {
    std::uint32_t rows[kLoadsAhead];
    float weights[kLoadsAhead];
    float values[kLoadsAhead];
    for (std::size_t k = 0; k < kLoadsAhead; ++k) {
      rows[k] = row_at(i + k);
      weights[k] = weight_at(i + k);
    }
    for (std::size_t k = 0; k < kLoadsAhead; ++k) {
      values[k] = rows[k] == kNoRow ? 0.0F : table[rows[k] * width + column];
    }
    for (std::size_t k = 0; k < kLoadsAhead; ++k) {
      if (rows[k] != kNoRow) sum += weights[k] * values[k];
    }
  }
  for (; i < end; ++i) {
    const std::uint32_t row = row_at(i);
    if (row != kNoRow) sum += weight_at(i) * table[row * width + column];
  }
  return sum;
}

// op::Pool: a warp for each bag.
struct Pool {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t slots = 0;
  const std::uint32_t* indices = nullptr;
  const std::uint32_t* starts = nullptr;  // slots * rows + 1
  const float* weights = nullptr;         // one for each index; null: all 1
  const float* scales = nullptr;          // one for each bag; null: all 1
  const float* table = nullptr;
  Rows to;
  PADDLE_HD std::size_t count() const { return slots * rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const Position bag = position_of(index, rows);  // row: the slot; column: the row of the run
    const float scale = scales == nullptr ? 1.0F : scales[index];
    float* const out = to.row(bag.column) + bag.row * width;
    warp.each(width, [&](std::size_t c) {
      const float sum = add_rows(
          0, starts[index], starts[index + 1], [this](std::size_t i) { return indices[i]; },
          [this](std::size_t i) { return weights == nullptr ? 1.0F : weights[i]; }, table, width,
          c);
      out[c] = sum * scale;
    });
  }
};

// Where each row of a table occurs: the occurrences of row r are order[starts[r]], ...,
// order[starts[r + 1] - 1], each an index into the indices that the forward read. Rows that no
// index names have none.
struct Occurrences {
  const std::uint32_t* rows = nullptr;  // number of rows of the table, in the card's memory
  const std::uint32_t* starts = nullptr;
  const std::uint32_t* order = nullptr;

  // gradient[row][c] = the sum of factor(i) * value(i, c) over the occurrences i of the row, in
  // their order, or += when accumulate.
  template <class Warp, class Factor, class Value>
  PADDLE_HD void add(const Warp& warp, std::size_t row, std::size_t width, bool accumulate,
                     float* gradient, Factor factor, Value value) const {
    if (row >= *rows || (accumulate && starts[row] == starts[row + 1])) return;
    warp.each(width, [&](std::size_t c) {
      float sum = accumulate ? gradient[row * width + c] : 0.0F;
      std::uint32_t i = starts[row];
      const std::uint32_t end = starts[row + 1];
      for (; end - i >= kLoadsAhead; i += kLoadsAhead) {
        std::uint32_t at[kLoadsAhead];
        float factors[kLoadsAhead];
        float values[kLoadsAhead];
        for (std::size_t k = 0; k < kLoadsAhead; ++k) at[k] = order[i + k];
        for (std::size_t k = 0; k < kLoadsAhead; ++k) {
          factors[k] = factor(at[k]);
          values[k] = value(at[k], c);
        }
        for (std::size_t k = 0; k < kLoadsAhead; ++k) sum += factors[k] * values[k];
      }
      for (; i < end; ++i) sum += factor(order[i]) * value(order[i], c);
      gradient[row * width + c] = sum;
    });
  }
};

// op::GatherBackward, with one warp for each row of the table, which has at most `rows_max` rows.
struct GatherBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows_max = 0;
  std::size_t width = 0;
  std::size_t columns = 0;
  Occurrences occurrences;
  const float* weights = nullptr;  // null: all 1
  ConstRows gradient;
  float* table_gradient = nullptr;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows_max; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    occurrences.add(
        warp, index, width, accumulate, table_gradient,
        [this](std::uint32_t i) { return weights == nullptr ? 1.0F : weights[i]; },
        [this](std::uint32_t i, std::size_t c) {
          const Position at = position_of(i, columns);
          return gradient.row(at.row)[at.column * width + c];
        });
  }
};

// op::PoolBackward, with one warp for each row of the table, which has at most `rows_max` rows.
// bags[i] is the bag that contains index i.
struct PoolBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows_max = 0;
  std::size_t width = 0;
  std::size_t rows = 0;  // rows of the run
  Occurrences occurrences;
  const std::uint32_t* bags = nullptr;
  const float* weights = nullptr;  // null: all 1
  const float* scales = nullptr;   // one for each bag; null: all 1
  ConstRows gradient;
  float* table_gradient = nullptr;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows_max; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    occurrences.add(
        warp, index, width, accumulate, table_gradient,
        [this](std::uint32_t i) {
          const float scale = scales == nullptr ? 1.0F : scales[bags[i]];
          return weights == nullptr ? scale : scale * weights[i];
        },
        [this](std::uint32_t i, std::size_t c) {
          const Position at = position_of(bags[i], rows);  // row: the slot
          return gradient.row(at.column)[at.row * width + c];
        });
  }
};

// op::SampledCost: a warp for each candidate of each row.
struct SampledCost {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t candidates = 0;
  const std::uint32_t* indices = nullptr;  // one for each candidate, or two with a bias
  const float* scales = nullptr;           // one for each candidate; null: all 0
  ConstRows x;
  const float* weight = nullptr;
  const float* bias = nullptr;  // optional
  float cost_scale = 0;
  Rows slopes;
  double* costs = nullptr;  // one for each row and candidate
  PADDLE_HD std::size_t count() const { return rows * candidates; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const Position at = position_of(index, candidates);
    const std::size_t step = bias == nullptr ? 1 : 2;
    const std::uint32_t row = indices[index * step];
    if (row == kNoRow) {
      warp.once([&] {
        slopes.at(at) = 0;
        costs[index] = 0;
      });
      return;
    }
    const float* const a = x.row(at.row);
    const float* const b = weight + row * width;
    float score = warp.sum(width, [=](std::size_t c) { return a[c] * b[c]; });
    if (bias != nullptr) score += bias[indices[index * step + 1]];
    warp.once([&] {
      const float logit = score - (scales == nullptr ? 0.0F : scales[index]);
      const ElementCost of = candidate_cost_of(logit, at.column == 0, cost_scale);
      slopes.at(at) = of.slope;
      costs[index] = of.cost;
    });
  }
};

// The gradient of x: a warp for each row.
struct SampledCostBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t candidates = 0;
  bool has_bias = false;  // two indices for each candidate
  const std::uint32_t* indices = nullptr;
  const float* weight = nullptr;
  ConstRows slopes;
  Rows x_gradient;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    const std::size_t step = has_bias ? 2 : 1;
    const std::uint32_t* const of_row = indices + index * candidates * step;
    const float* const slope = slopes.row(index);
    float* const out = x_gradient.row(index);
    warp.each(width, [&](std::size_t c) {
      out[c] = add_rows(
          accumulate ? out[c] : 0.0F, 0, candidates,
          [&](std::size_t k) { return of_row[k * step]; }, [&](std::size_t k) { return slope[k]; },
          weight, width, c);
    });
  }
};

// Adds to the gradient of the weights or of the biases, with one warp for each row of the table. An
// occurrence is the number of a candidate, row * candidates + candidate. For the biases, `width` is
// 1 and `x` is null.
struct SampledTableBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows_max = 0;
  std::size_t width = 0;
  std::size_t candidates = 0;
  Occurrences occurrences;
  ConstRows x;  // null: 1
  ConstRows slopes;
  float* table_gradient = nullptr;
  PADDLE_HD std::size_t count() const { return rows_max; }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    occurrences.add(
        warp, index, width, true, table_gradient,
        [this](std::uint32_t i) { return slopes.at(position_of(i, candidates)); },
        [this](std::uint32_t i, std::size_t c) {
          return x.first == nullptr ? 1.0F : x.row(position_of(i, candidates).row)[c];
        });
  }
};

}  // namespace paddle::kernels::device
