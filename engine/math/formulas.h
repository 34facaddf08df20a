// Formulas for one value, which the host and a card share: activation functions, costs, operations
// on the rows of a run, and rounding to bfloat16. The bits are the same on every machine and on a
// card.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/multiversion.h"
#include "base/rng.h"
#include "engine/math/portable_math.h"

namespace paddle::kernels {

// The activation functions.

// Each has apply(x) = f(x) and backward(kept, gradient) = gradient * f'(x), with `kept` as in
// Activation::backward.
struct Sigmoid {
  PADDLE_HD_INLINE static float apply(float x) { return logistic(x); }
  PADDLE_HD_INLINE static float backward(float y, float gradient) {
    return gradient * (y * (1.0F - y));
  }
};

struct Relu {
  PADDLE_HD_INLINE static float apply(float x) { return x < 0.0F ? 0.0F : x; }
  PADDLE_HD_INLINE static float backward(float y, float gradient) {
    return y > 0.0F ? gradient : 0.0F;
  }
};

// 1 - 2 / (e^2x + 1) loses relative precision near 0, where the odd series of tanh is used.
struct Tanh {
  PADDLE_HD_INLINE static float apply(float x) {
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
  PADDLE_HD_INLINE static float backward(float y, float gradient) {
    return gradient * (1.0F - y * y);
  }
};

// x Phi(x)
struct Gelu {
  PADDLE_HD_INLINE static float apply(float x) { return x * normal_at(x).distribution; }
  PADDLE_HD_INLINE static float backward(float x, float gradient) {
    const Normal normal = normal_at(x);
    return gradient * (normal.distribution + x * normal.density);
  }

 private:
  // Density and distribution function of the standard normal. The latter is formula 7.1.26 of
  // Abramowitz and Stegun, whose error is under 7.5e-8.
  struct Normal {
    float density;
    float distribution;
  };
  PADDLE_HD_INLINE static Normal normal_at(float x) {
    const float square = x * x;
    // exponential() saturates above 0, but x times the density must be 0 for large |x|.
    const float bell = square < 170.0F ? exponential(-0.5F * square) : 0.0F;
    const float t = 1.0F / (1.0F + 0.23164190F * std::fabs(x));
    float series = 1.061405429F;
    series = series * t - 1.453152027F;
    series = series * t + 1.421413741F;
    series = series * t - 0.284496736F;
    series = series * t + 0.254829592F;
    const float tail = 0.5F * series * t * bell;
    return {0.39894228F * bell, x < 0.0F ? tail : 1.0F - tail};
  }
};

// Costs of one output, with the derivative of the cost, and of the softmax of a row.

// ln(1 + e^x), absolute error under 3e-7 * (1 + |x|); NaN stays NaN.
PADDLE_HD_INLINE double softplus(float x) {
  const auto decay = static_cast<double>(exponential(-std::fabs(x)));
  const double above = x > 0 ? static_cast<double>(x) : 0.0;
  return x == x ? above + logarithm(1.0 + decay) : static_cast<double>(x);
}

struct ElementCost {
  double cost;
  float slope;  // scale * d cost / d x
};

// -y ln p - (1 - y) ln(1 - p) with p = sigmoid(x), computed as softplus(x) - y x.
PADDLE_HD_INLINE ElementCost binary_cross_entropy_of(float x, float y, float scale) {
  return {softplus(x) - static_cast<double>(y) * static_cast<double>(x), scale * (logistic(x) - y)};
}

// (x - y)^2
PADDLE_HD_INLINE ElementCost squared_error_of(float x, float y, float scale) {
  const float difference = x - y;
  return {static_cast<double>(difference) * static_cast<double>(difference),
          2 * scale * difference};
}

// The cost of a candidate of a sampled cost: softplus(-x) for the label, softplus(x) for any other
// candidate.
PADDLE_HD_INLINE ElementCost candidate_cost_of(float x, bool is_label, float scale) {
  return {softplus(is_label ? -x : x), scale * (logistic(x) - (is_label ? 1.0F : 0.0F))};
}

// -ln softmax(x)[label], where `sum` is the sum of e^(x - shift) over the row. NaN if `sum` is NaN.
PADDLE_HD_INLINE double softmax_cost_of(float sum, float shift, float x_of_label) {
  const auto wide = static_cast<double>(sum);
  return (sum == sum ? logarithm(wide) : wide) -
         (static_cast<double>(x_of_label) - static_cast<double>(shift));
}

// d cost / d x from y = softmax(x) and d cost / d y; `mean` is the sum of gradient * y over the
// row.
PADDLE_HD_INLINE float softmax_slope_of(float y, float gradient, float mean) {
  return y * (gradient - mean);
}

// Layer normalisation, factorisation machines, cosines, and the mask of dropout.

// Layer normalisation of a row. In backward(), `slope` is the mean over the row of gradient * gain,
// and `tilt` the mean over the row of gradient * gain * normal(x).
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

// Rounding to bfloat16, as described in rank_sums.h.

// Rounds to the nearest float whose lower 16 bits are 0, and returns its bits.
PADDLE_HD_INLINE std::uint32_t round_bits_to_bf16(float value) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff;
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kQuiet = 0x00400000;  // keeps a NaN a NaN without its lower bits
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = bits + 0x7fff + ((bits >> 16U) & 1U);
  const std::uint32_t kept = (bits & kMagnitude) > kInfinity ? bits | kQuiet : nearest;
  return kept & 0xffff0000;
}

// Whether the float with these bits is neither infinite nor NaN.
PADDLE_HD_INLINE bool is_finite_bf16(std::uint32_t bits) {
  return (bits & 0x7fffffffU) < 0x7f800000U;
}

PADDLE_HD_INLINE float value_of_bf16(std::uint16_t q) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(q) << 16U);
}

}  // namespace paddle::kernels
