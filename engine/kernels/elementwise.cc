#include "engine/kernels/elementwise.h"

#include <algorithm>
#include <cmath>

#include "base/multiversion.h"
#include "base/rng.h"
#include "engine/kernels/exponential.h"
#include "engine/kernels/softmax.h"

namespace paddle::kernels {
namespace {

[[gnu::always_inline]] inline float sigmoid(float x) {
  return 1.0F / (1.0F + exponential(-x));
}

// 1 - 2 / (e^2x + 1) loses relative precision near 0; there the odd series of tanh takes over.
[[gnu::always_inline]] inline float hyperbolic_tangent(float x) {
  const float z = x * x;
  float series = -1382.0F / 155925.0F;
  series = series * z + 62.0F / 2835.0F;
  series = series * z - 17.0F / 315.0F;
  series = series * z + 2.0F / 15.0F;
  series = series * z - 1.0F / 3.0F;
  const float near_zero = x + x * z * series;
  const float far = 1.0F - 2.0F / (exponential(2.0F * x) + 1.0F);
  return std::fabs(x) < 0.25F ? near_zero : far;
}

PADDLE_MULTIVERSION
void add_bias(std::size_t rows, std::size_t width, const float* __restrict bias,
              float* __restrict y) {
  for (std::size_t r = 0; r < rows; ++r, y += width) {
    for (std::size_t c = 0; c < width; ++c) y[c] += bias[c];
  }
}

PADDLE_MULTIVERSION
void sigmoid_each(std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = sigmoid(y[i]);
}

PADDLE_MULTIVERSION
void tanh_each(std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = hyperbolic_tangent(y[i]);
}

PADDLE_MULTIVERSION
void relu_each(std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = y[i] < 0.0F ? 0.0F : y[i];
}

PADDLE_MULTIVERSION
void sigmoid_backward(std::size_t count, const float* __restrict y, float* __restrict gradient) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] *= y[i] * (1.0F - y[i]);
}

PADDLE_MULTIVERSION
void tanh_backward(std::size_t count, const float* __restrict y, float* __restrict gradient) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] *= 1.0F - y[i] * y[i];
}

PADDLE_MULTIVERSION
void relu_backward(std::size_t count, const float* __restrict y, float* __restrict gradient) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] = y[i] > 0.0F ? gradient[i] : 0.0F;
}

// Several rows at a time, so that the second step finds them still in the first-level cache.
std::size_t rows_at_once(std::size_t width) {
  constexpr std::size_t kBlockElements = 4096;
  return std::max<std::size_t>(1, kBlockElements / std::max(width, 1UL));
}

}  // namespace

void bias_activate(Activation activation, std::size_t rows, std::size_t width, const float* bias,
                   float* y) {
  const std::size_t block_rows = rows_at_once(width);
  for (std::size_t first = 0; first < rows; first += block_rows) {
    const std::size_t some = std::min(block_rows, rows - first);
    float* block = y + first * width;
    if (bias != nullptr) add_bias(some, width, bias, block);
    switch (activation) {
      case Activation::kIdentity:
        break;
      case Activation::kSigmoid:
        sigmoid_each(some * width, block);
        break;
      case Activation::kRelu:
        relu_each(some * width, block);
        break;
      case Activation::kTanh:
        tanh_each(some * width, block);
        break;
      case Activation::kSoftmax:
        softmax_rows(some, width, block);
        break;
    }
  }
}

PADDLE_MULTIVERSION
void column_sum(std::size_t rows, std::size_t width, const float* __restrict x, float beta,
                float* __restrict sum) {
  if (beta != 1.0F) {
    for (std::size_t c = 0; c < width; ++c) sum[c] = beta == 0.0F ? 0.0F : beta * sum[c];
  }
  for (std::size_t r = 0; r < rows; ++r, x += width) {
    for (std::size_t c = 0; c < width; ++c) sum[c] += x[c];
  }
}

void activation_backward(Activation activation, std::size_t rows, std::size_t width, const float* y,
                         float* gradient, float beta, float* sum) {
  if (sum != nullptr && rows == 0) column_sum(0, width, gradient, beta, sum);
  const std::size_t block_rows = rows_at_once(width);
  for (std::size_t first = 0; first < rows; first += block_rows) {
    const std::size_t some = std::min(block_rows, rows - first);
    const std::size_t count = some * width;
    switch (activation) {
      case Activation::kIdentity:
        break;
      case Activation::kSigmoid:
        sigmoid_backward(count, y, gradient);
        break;
      case Activation::kRelu:
        relu_backward(count, y, gradient);
        break;
      case Activation::kTanh:
        tanh_backward(count, y, gradient);
        break;
      case Activation::kSoftmax:
        softmax_rows_backward(some, width, y, gradient);
        break;
    }
    if (sum != nullptr) column_sum(some, width, gradient, first == 0 ? beta : 1.0F, sum);
    y += count;
    gradient += count;
  }
}

PADDLE_MULTIVERSION
void add(std::size_t count, const float* __restrict x, float* __restrict y) {
  for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
}

PADDLE_MULTIVERSION
void multiply_by(std::size_t count, const float* __restrict x, float* __restrict y) {
  for (std::size_t i = 0; i < count; ++i) y[i] *= x[i];
}

PADDLE_MULTIVERSION
void multiply(std::size_t count, const float* __restrict x, const float* __restrict scale,
              bool accumulate, float* __restrict y) {
  if (accumulate) {
    for (std::size_t i = 0; i < count; ++i) y[i] += x[i] * scale[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * scale[i];
  }
}

PADDLE_MULTIVERSION
void dropout_mask(std::uint64_t stream, float rate, std::size_t count, float* mask) {
  const float keep_scale = 1.0F / (1.0F - rate);
  const auto threshold = static_cast<std::uint64_t>(static_cast<double>(rate) * 0x1.0p+32);
  for (std::size_t i = 0; i < count; ++i) {
    mask[i] = (mix64(stream + i) >> 32U) < threshold ? 0.0F : keep_scale;
  }
}

}  // namespace paddle::kernels
