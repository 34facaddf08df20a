// Kernels of a card that read rows of tables and sum their gradients. A sum has the order that
// `order` gives its terms, which the host makes, so the bits are the CPU's and no sum needs an
// atomic operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/device/elementwise.h"

namespace paddle::kernels::device {

// op::Gather
struct Gather {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t columns = 0;
  const std::uint32_t* indices = nullptr;  // rows * columns
  const float* weights = nullptr;          // of each index; null: all 1
  const float* table = nullptr;
  Rows to;
};

// op::Pool: a warp for each bag.
struct Pool {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t slots = 0;
  const std::uint32_t* indices = nullptr;
  const std::uint32_t* starts = nullptr;  // slots * rows + 1
  const float* weights = nullptr;         // of each index; null: all 1
  const float* scales = nullptr;          // of each bag; null: all 1
  const float* table = nullptr;
  Rows to;
};

// Where each row of a table occurs: the occurrences of row r are order[starts[r]], ...,
// order[starts[r + 1] - 1], each an index into the indices that the forward read. Rows that no
// index names have none.
struct Occurrences {
  const std::uint32_t* rows = nullptr;  // number of rows of the table, in the card's memory
  const std::uint32_t* starts = nullptr;
  const std::uint32_t* order = nullptr;
};

// op::GatherBackward: a warp for each row of the table, of which there may be `rows_max`.
struct GatherBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows_max = 0;
  std::size_t width = 0;
  std::size_t columns = 0;
  Occurrences occurrences;
  const float* weights = nullptr;  // null: all 1
  ConstRows gradient;
  float* table_gradient = nullptr;
};

// op::PoolBackward, likewise. bags[i] is the bag that index i is in.
struct PoolBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows_max = 0;
  std::size_t width = 0;
  std::size_t rows = 0;  // of the run
  Occurrences occurrences;
  const std::uint32_t* bags = nullptr;
  const float* weights = nullptr;  // null: all 1
  const float* scales = nullptr;   // of each bag; null: all 1
  ConstRows gradient;
  float* table_gradient = nullptr;
};

// op::SampledCost: a warp for each candidate of each row.
struct SampledCost {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t candidates = 0;
  const std::uint32_t* indices = nullptr;  // one for each candidate, or two with a bias
  const float* scales = nullptr;           // of each candidate; null: all 0
  ConstRows x;
  const float* weight = nullptr;
  const float* bias = nullptr;  // optional
  float cost_scale = 0;
  Rows slopes;
  double* costs = nullptr;  // of each row and candidate
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
};

// The gradients of weight and bias: a warp for each row of the table. An occurrence is the number
// of a candidate, row * candidates + candidate; `width` of 1 and no x make it the bias's.
struct SampledTableBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows_max = 0;
  std::size_t width = 0;
  std::size_t candidates = 0;
  Occurrences occurrences;
  ConstRows x;  // null: 1
  ConstRows slopes;
  float* table_gradient = nullptr;
};

}  // namespace paddle::kernels::device
