#include "engine/kernels/logistic.h"

#include <cmath>

#include "engine/kernels/exponential.h"
#include "engine/kernels/logarithm.h"

namespace paddle::kernels {

float sigmoid(float x) {
  return 1.0F / (1.0F + exponential(-x));
}

double softplus(float x) {
  const auto decay = static_cast<double>(exponential(-std::fabs(x)));
  const double above = x > 0 ? static_cast<double>(x) : 0.0;
  return x == x ? above + logarithm(1.0 + decay) : static_cast<double>(x);
}

double binary_cross_entropy(std::size_t count, const float* logits, float scale,
                            float* labels_to_gradient) {
  double cost = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float label = labels_to_gradient[i];
    cost += softplus(logits[i]) - static_cast<double>(label) * static_cast<double>(logits[i]);
    labels_to_gradient[i] = scale * (sigmoid(logits[i]) - label);
  }
  return cost;
}

}  // namespace paddle::kernels
