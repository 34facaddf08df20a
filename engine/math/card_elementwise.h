// Kernels of a card that compute element by element. Their results equal the CPU's, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rng.h"
#include "engine/math/card_shape.h"
#include "engine/math/formulas.h"

namespace paddle::kernels::device {

// to[i] = value
struct Fill {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  float value = 0;
  float* to = nullptr;
  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const { to[index] = value; }
};

// values[i] *= by
struct Scale {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  float by = 1;
  float* values = nullptr;
  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const { values[index] *= by; }
};

// to = from, or += when accumulate; to may be from.
struct CopyBlock {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows from;
  Rows to;
  bool accumulate = false;
  PADDLE_HD std::size_t count() const { return rows * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    put(from.at(at), accumulate, to.at(at));
  }
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
  PADDLE_HD std::size_t count() const { return rows * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    float sum = from[0].at(at);
    for (std::size_t i = 1; i < inputs; ++i) sum += from[i].at(at);
    to.at(at) = sum;
  }
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
  PADDLE_HD std::size_t count() const { return rows * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    float product = from[0].at(at);
    for (std::size_t i = 1; i < inputs; ++i) product *= from[i].at(at);
    put(product, accumulate, to.at(at));
  }
};

// The functions of kernels::Activation except softmax, which needs whole rows, and the identity.
enum class Function : std::uint32_t { kSigmoid, kRelu, kTanh, kGelu };

// Calls use(Sigmoid{}) for kSigmoid, and so on.
template <class Use>
PADDLE_HD_INLINE void with_function(Function function, Use use) {
  switch (function) {
    case Function::kSigmoid:
      return use(Sigmoid{});
    case Function::kRelu:
      return use(Relu{});
    case Function::kTanh:
      return use(Tanh{});
    case Function::kGelu:
      return use(Gelu{});
  }
}

// to[i] = f(from[i]); to may be from.
struct Activate {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  Function function = Function::kSigmoid;
  const float* from = nullptr;
  float* to = nullptr;
  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const {
    with_function(function, [this, index](auto of) { to[index] = of.apply(from[index]); });
  }
};

// gradient[i] *= f'(kept[i]), with `kept` as in Activation::backward.
struct ActivateBackward {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;
  Function function = Function::kSigmoid;
  const float* kept = nullptr;
  float* gradient = nullptr;
  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const {
    with_function(function, [this, index](auto of) {
      gradient[index] = of.backward(kept[index], gradient[index]);
    });
  }
};

// to[r][c] += bias[c], then relu if `relu` is set.
struct AddBias {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* bias = nullptr;
  Rows to;
  bool relu = false;
  PADDLE_HD std::size_t count() const { return rows * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    const float sum = to.at(at) + bias[at.column];
    to.at(at) = relu ? Relu::apply(sum) : sum;
  }
};

// op::Dropout in training. The seed of the run is read from the card's memory, so that one graph
// serves all steps.
struct Dropout {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  const std::uint64_t* seed = nullptr;
  std::uint64_t layer = 0;  // argument of example_stream()
  float rate = 0;
  ConstRows from;
  Rows mask;
  Rows to;
  PADDLE_HD std::size_t count() const { return rows * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    const float factor = DropoutMask(rate).at(example_stream(*seed, layer, at.row), at.column);
    mask.at(at) = factor;
    to.at(at) = from.at(at) * factor;
  }
};

// to[i] = from[i] rounded by round_bits_to_bf16(); rows of `to` begin to_stride values apart, and
// values past the width are 0.
struct RoundToBfloat16 {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows from;
  std::uint16_t* to = nullptr;
  std::size_t to_stride = 0;
  PADDLE_HD std::size_t count() const { return rows * to_stride; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, to_stride);
    const float value = at.column < width ? from.at(at) : 0.0F;
    to[index] = static_cast<std::uint16_t>(round_bits_to_bf16(value) >> 16U);
  }
};

}  // namespace paddle::kernels::device
