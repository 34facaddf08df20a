// Squared error of one example and its gradient. The bits are the same on every machine.
#pragma once

#include <cstddef>

namespace paddle::kernels {

// Sum over outputs of (x - y)^2, in order, in double precision. labels_to_gradient holds the y on
// entry and scale * d cost / d x = 2 * scale * (x - y) on return.
inline double squared_error(std::size_t count, const float* x, float scale,
                            float* labels_to_gradient) {
  double cost = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float difference = x[i] - labels_to_gradient[i];
    cost += static_cast<double>(difference) * static_cast<double>(difference);
    labels_to_gradient[i] = 2 * scale * difference;
  }
  return cost;
}

}  // namespace paddle::kernels
