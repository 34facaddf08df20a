// Cost of a network in double precision, straight from the definitions of the layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {

// `values` are by parameter, as in TestNetwork. Dropout masks are those of training with `seed`.
double reference_cost(const TestNetwork& test, const std::vector<std::vector<double>>& values,
                      const Batch& batch, std::uint64_t seed);

}  // namespace paddle::nn
