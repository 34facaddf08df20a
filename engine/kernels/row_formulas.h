// Formulas for one value of layer normalisation, of factorisation machines, of cosines, and of the
// mask of dropout. The bits are the same on every machine, and on a card.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/multiversion.h"
#include "base/rng.h"

namespace paddle::kernels {

// Layer normalisation: `slope` and `tilt` are the means over the row of gradient * gain, and of
// that times normal().
struct LayerNormRow {
  float mean;
  float inverse;  // 1 / standard deviation

  PADDLE_HD_INLINE static float inverse_of(float variance, float epsilon) {
    return 1.0F / std::sqrt(variance + epsilon);
  }
  PADDLE_HD_INLINE float normal(float x) const { return (x - mean) * inverse; }
  PADDLE_HD_INLINE float apply(float x, float gain, float bias) const {
    return normal(x) * gain + bias;
  }
  PADDLE_HD_INLINE float backward(float x, float gain, float gradient, float slope,
                                  float tilt) const {
    return inverse * (gradient * gain - slope - normal(x) * tilt);
  }
};

// The term of pair_sum for one factor.
PADDLE_HD_INLINE float pair_term_of(float sum, float square) {
  return sum * sum - square;
}
PADDLE_HD_INLINE float pair_slope_of(float sum, float v, float slope) {
  return slope * (sum - v);
}

struct Cosine {
  float dot = 0;
  float a_norm = 0;
  float b_norm = 0;
  // 0 where a vector is zero.
  PADDLE_HD_INLINE float value() const {
    return a_norm > 0 && b_norm > 0 ? dot / (a_norm * b_norm) : 0.0F;
  }
};

// slope * d cosine / d a = along_b * b + along_a * a
struct CosineSlope {
  float along_b;
  float along_a;

  PADDLE_HD_INLINE CosineSlope(const Cosine& of, float slope) {
    const bool is_zero = !(of.a_norm > 0 && of.b_norm > 0);
    along_b = is_zero ? 0.0F : slope / (of.a_norm * of.b_norm);
    along_a = is_zero ? 0.0F : -slope * of.value() / (of.a_norm * of.a_norm);
  }
  PADDLE_HD_INLINE float apply(float a, float b) const { return along_b * b + along_a * a; }
};

// 0 with probability rate, else 1 / (1 - rate).
struct DropoutMask {
  float keep_scale;
  std::uint64_t threshold;

  PADDLE_HD_INLINE explicit DropoutMask(float rate)
      : keep_scale(1.0F / (1.0F - rate)),
        threshold(static_cast<std::uint64_t>(static_cast<double>(rate) * 0x1.0p+32)) {}
  PADDLE_HD_INLINE float at(std::uint64_t stream, std::size_t index) const {
    return (mix64(stream + index) >> 32U) < threshold ? 0.0F : keep_scale;
  }
};

}  // namespace paddle::kernels
