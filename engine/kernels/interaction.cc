#include "engine/kernels/interaction.h"

#include <cmath>

#include "base/multiversion.h"
#include "engine/kernels/portable_math.h"

namespace paddle::kernels {

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
