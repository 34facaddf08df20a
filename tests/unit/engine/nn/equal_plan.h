// Check that the plan of a network computes what its layers do.
#pragma once

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {

// Expects costs, outputs, predictions and parameter gradients to be equal bit for bit, in training
// and in tests, for the whole batch and for a part of it.
void expect_equal_plan(TestNetwork& test, const Batch& batch, std::uint64_t seed);

}  // namespace paddle::nn
