#include "engine/kernels/normalize.h"

#include "base/multiversion.h"
#include "engine/kernels/portable_math.h"
#include "engine/kernels/row_formulas.h"

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

}  // namespace paddle::kernels
