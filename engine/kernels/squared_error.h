// Squared error of one example and its gradient. The bits are the same on every machine.
#pragma once

#include <cstddef>

#include "engine/kernels/cost_formulas.h"

namespace paddle::kernels {

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
