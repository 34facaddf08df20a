// Logistic function and its cross-entropy. The bits are the same on every machine.
#pragma once

#include <cstddef>

namespace paddle::kernels {

// 1 / (1 + e^-x), absolute error under 3e-7.
float sigmoid(float x);
// ln(1 + e^x), absolute error under 3e-7 * (1 + |x|); NaN stays NaN.
double softplus(float x);
// Sum over outputs of -y ln p - (1 - y) ln(1 - p) with p = sigmoid(logit), computed as
// softplus(logit) - y logit, which never overflows. labels_to_gradient holds the y on entry and
// scale * d cost / d logits = scale * (p - y) on return.
double binary_cross_entropy(std::size_t count, const float* logits, float scale,
                            float* labels_to_gradient);

}  // namespace paddle::kernels
