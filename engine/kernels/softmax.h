// Softmax and cross-entropy of one example, fused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paddle::kernels {

struct SoftmaxCost {
  double cost = 0;             // -ln p[label]
  std::size_t prediction = 0;  // the largest logit; the first one of equals
};

// width > 0, label < width. Writes d cost / d logits = p - onehot(label) when with_gradient;
// otherwise `gradient` is scratch. Logits may not alias it. A NaN logit makes the cost NaN.
// The order of summation is fixed, so the bits do not depend on the machine.
SoftmaxCost softmax_cross_entropy(std::size_t width, const float* logits, std::size_t label,
                                  bool with_gradient, float* gradient);

}  // namespace paddle::kernels
