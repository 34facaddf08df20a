#include "engine/math/row_wise.h"

#include <cmath>

#include "base/multiversion.h"
#include "engine/math/formulas.h"
#include "engine/math/portable_math.h"

namespace paddle::kernels {

PADDLE_MULTIVERSION
void layer_norm(std::size_t rows, std::size_t width, float epsilon, const float* __restrict x,
                const float* __restrict gain, const float* __restrict bias, float* __restrict y,
                float* __restrict statistics) {
  const auto count = static_cast<float>(width);
  for (std::size_t r = 0; r < rows; ++r, x += width, y += width, statistics += 2) {
    const float mean = lane_sum(width, [x](std::size_t c) { return x[c]; }) / count;
    const float variance =
        lane_sum(width, [x, mean](std::size_t c) { return (x[c] - mean) * (x[c] - mean); }) / count;
    const LayerNormRow row{mean, LayerNormRow::inverse_of(variance, epsilon)};
    for (std::size_t c = 0; c < width; ++c) y[c] = row.apply(x[c], gain[c], bias[c]);
    statistics[0] = row.mean;
    statistics[1] = row.inverse;
  }
}

PADDLE_MULTIVERSION
void layer_norm_backward(std::size_t rows, std::size_t width, const float* __restrict x,
                         const float* __restrict gain, const float* __restrict statistics,
                         const float* __restrict gradient, bool accumulate,
                         float* __restrict x_gradient, float* __restrict gain_gradient,
                         float* __restrict bias_gradient) {
  const auto count = static_cast<float>(width);
  for (std::size_t r = 0; r < rows; ++r) {
    const LayerNormRow row{statistics[0], statistics[1]};
    const float slope =
        lane_sum(width, [=](std::size_t c) { return gradient[c] * gain[c]; }) / count;
    const float tilt =
        lane_sum(width, [=](std::size_t c) { return gradient[c] * gain[c] * row.normal(x[c]); }) /
        count;
    for (std::size_t c = 0; c < width; ++c) {
      const float value = row.backward(x[c], gain[c], gradient[c], slope, tilt);
      x_gradient[c] = accumulate ? x_gradient[c] + value : value;
      gain_gradient[c] += gradient[c] * row.normal(x[c]);
      bias_gradient[c] += gradient[c];
    }
    x += width;
    x_gradient += width;
    gradient += width;
    statistics += 2;
  }
}

PADDLE_MULTIVERSION
void add_fields(std::size_t fields, std::size_t factors, const float* __restrict v,
                float* __restrict sums, float* __restrict squares) {
  for (std::size_t f = 0; f < fields; ++f, v += factors) {
    for (std::size_t c = 0; c < factors; ++c) {
      sums[c] += v[c];
      squares[c] += v[c] * v[c];
    }
  }
}

PADDLE_MULTIVERSION
float pair_sum(std::size_t factors, const float* sums, const float* squares) {
  return 0.5F * lane_sum(factors, [=](std::size_t c) { return pair_term_of(sums[c], squares[c]); });
}

PADDLE_MULTIVERSION
void pair_sum_backward(std::size_t fields, std::size_t factors, const float* __restrict v,
                       const float* __restrict sums, float slope, bool accumulate,
                       float* __restrict v_gradient) {
  for (std::size_t f = 0; f < fields; ++f, v += factors, v_gradient += factors) {
    for (std::size_t c = 0; c < factors; ++c) {
      const float value = pair_slope_of(sums[c], v[c], slope);
      v_gradient[c] = accumulate ? v_gradient[c] + value : value;
    }
  }
}

PADDLE_MULTIVERSION
float dot(std::size_t width, const float* a, const float* b) {
  return lane_sum(width, [=](std::size_t c) { return a[c] * b[c]; });
}

PADDLE_MULTIVERSION
void add_scaled(std::size_t width, float scale, const float* __restrict x, float* __restrict y) {
  for (std::size_t c = 0; c < width; ++c) y[c] += scale * x[c];
}

Cosine cosine(std::size_t width, const float* a, const float* b) {
  return {dot(width, a, b), std::sqrt(dot(width, a, a)), std::sqrt(dot(width, b, b))};
}

PADDLE_MULTIVERSION
void cosine_backward(std::size_t width, const Cosine& of, float slope, const float* __restrict a,
                     const float* __restrict b, bool accumulate, float* __restrict a_gradient) {
  const CosineSlope along(of, slope);
  for (std::size_t c = 0; c < width; ++c) {
    const float value = along.apply(a[c], b[c]);
    a_gradient[c] = accumulate ? a_gradient[c] + value : value;
  }
}

}  // namespace paddle::kernels
