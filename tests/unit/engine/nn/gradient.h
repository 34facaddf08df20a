// Check of a network's gradient against finite differences of the same network in double precision.
#pragma once

#include "tests/unit/engine/nn/reference_network.h"

namespace paddle::nn {

// Expects the right cost, and the right gradient for every element of every parameter; no parameter
// may be without influence. Single precision leaves an error of about 1e-6 in a gradient, the step
// of 1e-5 one of 1e-9.
void expect_right_gradient(TestNetwork& test, const Batch& batch);

}  // namespace paddle::nn
