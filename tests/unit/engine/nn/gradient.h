// A network's gradient against finite differences of the same network in double precision.
#pragma once

#include "tests/unit/engine/nn/reference_network.h"

namespace paddle::nn {

// Of every element of every parameter, and the cost itself; every parameter must have influence.
// Single precision leaves an error of about 1e-6 in a gradient, the step of 1e-5 one of 1e-9.
void expect_right_gradient(TestNetwork& test, const Batch& batch);

}  // namespace paddle::nn
