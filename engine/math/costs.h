// Costs of one example and their gradients: cross-entropy after softmax and after the logistic
// function, and the squared error. Also softmax and the logistic function without a cost. The bits
// are the same on every machine.
#pragma once

#include <cstddef>

#include "engine/math/formulas.h"

namespace paddle::kernels {

struct SoftmaxCost {
  double cost = 0;             // -ln p[label]
  std::size_t prediction = 0;  // index of the largest logit; the first of equal ones
};

// Writes scale * d cost / d logits = scale * (p - onehot(label)); if scale is 0, `gradient` gets
// undefined values. `gradient` must not overlap `logits`. A NaN logit makes the cost NaN.
// The order of summation is fixed, so the bits do not depend on the machine. REQUIRES: width > 0
// and label < width.
SoftmaxCost softmax_cross_entropy(std::size_t width, const float* logits, std::size_t label,
                                  float scale, float* gradient);

// Each row of y becomes its softmax.
void softmax_rows(std::size_t rows, std::size_t width, float* y);
// Turns d cost / d y into d cost / d x, from y = softmax(x): y (g - sum of g y), row by row.
void softmax_rows_backward(std::size_t rows, std::size_t width, const float* y, float* gradient);

// 1 / (1 + e^-x), absolute error under 3e-7.
float sigmoid(float x);
// Sum over outputs of -y ln p - (1 - y) ln(1 - p) with p = sigmoid(logit), computed as
// softplus(logit) - y logit, which never overflows. labels_to_gradient holds the y on entry and
// scale * d cost / d logits = scale * (p - y) on return.
double binary_cross_entropy(std::size_t count, const float* logits, float scale,
                            float* labels_to_gradient);

// Costs of candidates of a sampled cost: candidate_cost_of() of each logit, where `labels` is 1 for
// a label and 0 for any other candidate. Each logit becomes scale * d cost / d logit.
void candidate_costs(std::size_t count, const float* labels, float scale, double* costs,
                     float* logits_to_slopes);

// Sum over outputs of (x - y)^2, in order, in double precision. labels_to_gradient holds the y on
// entry and scale * d cost / d x = 2 * scale * (x - y) on return.
inline double squared_error(std::size_t count, const float* x, float scale,
                            float* labels_to_gradient) {
  double cost = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ElementCost of = squared_error_of(x[i], labels_to_gradient[i], scale);
    cost += of.cost;
    labels_to_gradient[i] = of.slope;
  }
  return cost;
}

}  // namespace paddle::kernels
