// Formulas of costs: for one output, with the slope of the cost, and for the softmax of a row. The
// bits are the same on every machine, and on a card but for the last one of a logarithm.
#pragma once

#include <cmath>

#include "base/multiversion.h"
#include "engine/kernels/portable_math.h"

namespace paddle::kernels {

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

// The cost of a candidate of a sampled cost: softplus(-x) for the label, softplus(x) for another.
PADDLE_HD_INLINE ElementCost candidate_cost_of(float x, bool is_label, float scale) {
  return {softplus(is_label ? -x : x), scale * (logistic(x) - (is_label ? 1.0F : 0.0F))};
}

// -ln softmax(x)[label], where sum is that of all e^(x - shift).
PADDLE_HD_INLINE double softmax_cost_of(float sum, float shift, float x_of_label) {
  return std::log(static_cast<double>(sum)) -
         (static_cast<double>(x_of_label) - static_cast<double>(shift));
}

// d cost / d x from y = softmax(x) and d cost / d y; mean is the sum of gradient * y over the row.
PADDLE_HD_INLINE float softmax_slope_of(float y, float gradient, float mean) {
  return y * (gradient - mean);
}

}  // namespace paddle::kernels
