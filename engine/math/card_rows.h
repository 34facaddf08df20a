// Kernels of a card that read rows of tables and sum their gradients. The host decides the order of
// the terms of each sum (Occurrences::order), so no sum needs an atomic operation, and the bits
// equal the CPU's, except for rows that occur so often that their sums have several parts.
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
//
// One warp adds up the gradients of a row. In real data one row may occur in every example, and its
// warp would work long after all others. So `order` is also divided into pieces. A row that occurs
// more than kPiece times has a warp for each piece that it has a part of, and the last of these
// adds up their sums:
//
//     order    |   piece 0   |   piece 1   |   piece 2   |
//     rows      0 1 1 2 3 3 3 3 3 3 3 3 3 3 3 3 3 3 4 5 5
//     sums              [1]     [2]           [4]              of row 3, in partials
//
// The number of a sum is 2 * piece for a row that the piece begins with, and one more for another
// row. A piece holds no other part of a row that occurs more than kPiece times.
struct Occurrences {
  static constexpr std::uint32_t kPiece = 512;

  const std::uint32_t* rows = nullptr;  // number of rows of the table, in the card's memory
  const std::uint32_t* starts = nullptr;
  const std::uint32_t* order = nullptr;
  // Null: one warp adds up each row. Otherwise `order` has room for `most` occurrences.
  float* partials = nullptr;          // partial_count(most) rows
  std::uint32_t* counters = nullptr;  // one for each piece, for is_last()
  std::size_t most = 0;

  static constexpr std::size_t piece_count(std::size_t most) {
    return (most + kPiece - 1) / kPiece;
  }
  static constexpr std::size_t partial_count(std::size_t most) { return 2 * piece_count(most); }

  // Warps for a table of at most `rows_max` rows.
  PADDLE_HD std::size_t warps(std::size_t rows_max) const {
    return rows_max + (partials == nullptr ? 0 : piece_count(most));
  }
  // gradient[row][c] = the sum of factor(i) * value(i, c) over the occurrences i of the row, or +=
  // when accumulate. The sum is in their order, but for rows in pieces: there the sums of pieces
  // are added up in order. Called with each index below warps().
  template <class Warp, class Factor, class Value>
  PADDLE_HD void add(const Warp& warp, std::size_t index, std::size_t rows_max, std::size_t width,
                     bool accumulate, float* gradient, Factor factor, Value value) const {
    if (index < rows_max) {
      if (index >= *rows) return;
      const std::uint32_t begin = starts[index];
      const std::uint32_t end = starts[index + 1];
      if ((accumulate && begin == end) || is_in_pieces(index)) return;
      warp.each(width, [&](std::size_t c) {
        float& to = gradient[index * width + c];
        to = sum(accumulate ? to : 0.0F, begin, end, c, factor, value);
      });
      return;
    }
    const std::size_t piece = index - rows_max;
    const std::uint32_t all = starts[*rows];
    if (piece * kPiece >= all) return;
    const auto begin = static_cast<std::uint32_t>(piece * kPiece);
    const std::uint32_t end = all - begin < kPiece ? all : begin + kPiece;
    const std::size_t first = row_at(begin);
    const std::uint32_t first_end = starts[first + 1] < end ? starts[first + 1] : end;
    const auto add_part = [&](std::size_t row, std::uint32_t from, std::uint32_t to,
                              std::size_t partial) {
      if (!is_in_pieces(row)) return;
      warp.each(width, [&](std::size_t c) {
        partials[partial * width + c] = sum(0, from, to, c, factor, value);
      });
      const std::size_t piece_from = starts[row] / kPiece;
      const std::size_t pieces = (starts[row + 1] - 1) / kPiece - piece_from + 1;
      if (!warp.is_last(counters + piece_from, pieces)) return;
      const std::size_t begins_within = starts[row] % kPiece == 0 ? 0 : 1;
      warp.each(width, [&](std::size_t c) {
        const float* const of = partials + 2 * piece_from * width + c;
        float sum_of_all = accumulate ? gradient[row * width + c] : 0.0F;
        sum_of_all += of[begins_within * width];
        for (std::size_t k = 1; k < pieces; ++k) sum_of_all += of[2 * k * width];
        gradient[row * width + c] = sum_of_all;
      });
    };
    add_part(first, begin, first_end, 2 * piece);
    if (first_end == end) return;
    const std::size_t last = row_at(end - 1);
    add_part(last, starts[last], end, 2 * piece + 1);
  }

 private:
  PADDLE_HD bool is_in_pieces(std::size_t row) const {
    return partials != nullptr && starts[row + 1] - starts[row] > kPiece;
  }
  // The row of an occurrence, by binary search.
  PADDLE_HD std::size_t row_at(std::uint32_t occurrence) const {
    std::size_t row = 0;
    for (std::size_t end = *rows; end - row > 1;) {
      const std::size_t middle = row + (end - row) / 2;
      if (starts[middle] <= occurrence) {
        row = middle;
      } else {
        end = middle;
      }
    }
    return row;
  }
  // Starts the loads of several occurrences before it uses the first one.
  template <class Factor, class Value>
  PADDLE_HD float sum(float sum, std::uint32_t begin, std::uint32_t end, std::size_t c,
                      Factor factor, Value value) const {
    std::uint32_t i = begin;
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
    return sum;
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
  PADDLE_HD std::size_t count() const { return occurrences.warps(rows_max); }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    occurrences.add(
        warp, index, rows_max, width, accumulate, table_gradient,
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
  PADDLE_HD std::size_t count() const { return occurrences.warps(rows_max); }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    occurrences.add(
        warp, index, rows_max, width, accumulate, table_gradient,
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
  PADDLE_HD std::size_t count() const { return occurrences.warps(rows_max); }
  template <class Warp>
  PADDLE_HD void operator()(const Warp& warp, std::size_t index) const {
    occurrences.add(
        warp, index, rows_max, width, true, table_gradient,
        [this](std::uint32_t i) { return slopes.at(position_of(i, candidates)); },
        [this](std::uint32_t i, std::size_t c) {
          return x.first == nullptr ? 1.0F : x.row(position_of(i, candidates).row)[c];
        });
  }
};

}  // namespace paddle::kernels::device
