// Formulas of the activation functions for one value. The bits are the same on every machine, and
// on a card.
#pragma once

#include <cmath>

#include "base/multiversion.h"
#include "engine/kernels/portable_math.h"

namespace paddle::kernels {

// Each has apply(x) = f(x) and backward(kept, gradient) = gradient * f'(x), with `kept` as
// Activation::backward takes it.
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
    // The exponential saturates, and x times what is left must vanish.
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

}  // namespace paddle::kernels
