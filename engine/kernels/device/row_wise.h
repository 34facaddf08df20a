// Kernels of a card that compute row by row of the run, a warp a row, and sums over rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/device/elementwise.h"

namespace paddle::kernels::device {

// y = softmax of each row, in place.
struct SoftmaxRows {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float* y = nullptr;
};
struct SoftmaxRowsBackward {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* y = nullptr;
  float* gradient = nullptr;
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
};

// op::BinaryCrossEntropy and op::SquaredError, likewise.
struct BinaryCrossEntropy {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float cost_scale = 0;
  ConstRows x;
  ConstRows labels;
  Rows gradient;
  double* costs = nullptr;
};
struct SquaredError {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float cost_scale = 0;
  ConstRows x;
  ConstRows labels;
  Rows gradient;
  double* costs = nullptr;
};

// *sum = costs[0] + ... in lanes: one warp.
struct SumCosts {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t size = 0;
  const double* costs = nullptr;
  double* sum = nullptr;
};

// op::LayerNorm; statistics: two floats a row.
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
};
// The gradient of x; those of gain and bias are sums of columns.
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
};

// op::CosineSimilarity and its backward.
struct CosineSimilarity {
  static constexpr Shape kShape = Shape::kWarps;
  std::size_t rows = 0;
  std::size_t width = 0;
  float scale = 1;
  ConstRows a;
  ConstRows b;
  Rows to;
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
};

// Sums of columns over rows, in two kernels: each chunk of kChunkRows rows in order, then the
// chunks in order.
constexpr std::size_t kChunkRows = 256;
constexpr std::size_t chunk_count(std::size_t rows) {
  return (rows + kChunkRows - 1) / kChunkRows;
}
struct ChunkSums {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows from;
  float* chunks = nullptr;  // chunk_count(rows) x width
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
};
// to = the sum of the chunks, or += when accumulate.
struct SumChunks {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t chunks = 0;
  std::size_t width = 0;
  const float* from = nullptr;
  float* to = nullptr;
  bool accumulate = false;
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
};

}  // namespace paddle::kernels::device
