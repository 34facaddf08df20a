// The logistic function and the cost that goes with it. The bits are the same on every machine.
#pragma once

#include <cstddef>

namespace paddle::kernels {

// 1 / (1 + e^-x), absolute error under 3e-7.
float sigmoid(float x);
// ln(1 + e^x), absolute error under 3e-7 * (1 + |x|); NaN stays NaN.
double softplus(float x);
// Sum over outputs of -y ln p - (1 - y) ln(1 - p) with p = sigmoid(logit), computed from the logits
// so that it never overflows: softplus(logit) - y logit. labels_to_gradient holds the y and gets
// scale * d cost / d logits = scale * (p - y).
double binary_cross_entropy(std::size_t count, const float* logits, float scale,
                            float* labels_to_gradient);

}  // namespace paddle::kernels
