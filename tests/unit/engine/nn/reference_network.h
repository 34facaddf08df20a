// The cost of a network in double precision, written straight from the layers' definitions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {

// `values` by parameter as in TestNetwork. Training mode: the dropout masks are those of `seed`.
double reference_cost(const TestNetwork& test, const std::vector<std::vector<double>>& values,
                      const Batch& batch, std::uint64_t seed);

}  // namespace paddle::nn
