#include "engine/math/elementwise.h"

#include "base/multiversion.h"
#include "engine/math/formulas.h"

namespace paddle::kernels {

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
void add_bias(std::size_t rows, std::size_t width, const float* __restrict bias,
              float* __restrict y) {
  for (std::size_t r = 0; r < rows; ++r, y += width) {
    for (std::size_t c = 0; c < width; ++c) y[c] += bias[c];
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

PADDLE_MULTIVERSION
void dropout_mask(std::uint64_t stream, float rate, std::size_t count, float* mask) {
  const DropoutMask of(rate);
  for (std::size_t i = 0; i < count; ++i) mask[i] = of.at(stream, i);
}

}  // namespace paddle::kernels
