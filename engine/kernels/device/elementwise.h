// Kernels of a card that compute element by element. Their results are the CPU's, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/device/shape.h"

namespace paddle::kernels::device {

// First value of a block of columns, and the floats from one row to the next.
struct Rows {
  float* first = nullptr;
  std::size_t stride = 0;
};
struct ConstRows {
  const float* first = nullptr;
  std::size_t stride = 0;
};

// to[i] = value
struct Fill {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  float value = 0;
  float* to = nullptr;
  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const { to[index] = value; }
};

// to = from, or += when accumulate; to may be from.
struct CopyBlock {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows from;
  Rows to;
  bool accumulate = false;
};

// to = from[0] + from[1] + ..., from left to right.
constexpr std::size_t kCombinedMax = 16;
struct SumOf {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t inputs = 0;  // 1 to kCombinedMax
  ConstRows from[kCombinedMax];
  Rows to;
};

// to = from[0] * from[1] * ..., from left to right, or += that when accumulate.
struct ProductOf {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t inputs = 0;  // 1 to kCombinedMax
  ConstRows from[kCombinedMax];
  Rows to;
  bool accumulate = false;
};

// The functions of kernels::Activation, but for softmax, which is of whole rows, and the identity.
enum class Function : std::uint32_t { kSigmoid, kRelu, kTanh, kGelu };

// to[i] = f(from[i]); to may be from.
struct Activate {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  Function function = Function::kSigmoid;
  const float* from = nullptr;
  float* to = nullptr;
};

// gradient[i] *= f'(kept[i]), with `kept` as Activation::backward takes it.
struct ActivateBackward {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  Function function = Function::kSigmoid;
  const float* kept = nullptr;
  float* gradient = nullptr;
};

// to[r][c] += bias[c], then relu where asked.
struct AddBias {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* bias = nullptr;
  Rows to;
  bool relu = false;
};

// mask as op::Dropout's, and to = from * mask. The seed of the run lies in the card's memory, so
// that a graph need not be made anew for each step.
struct Dropout {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  const std::uint64_t* seed = nullptr;
  std::uint64_t layer = 0;  // as example_stream takes it
  float rate = 0;
  ConstRows from;
  Rows mask;
  Rows to;
};

// to[i] = from[i] rounded to bfloat16, to the nearest even as kernels::bf16 rounds; rows of `to`
// begin to_stride values apart, and values past the width are 0.
struct RoundToBfloat16 {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows from;
  std::uint16_t* to = nullptr;
  std::size_t to_stride = 0;
};

}  // namespace paddle::kernels::device
