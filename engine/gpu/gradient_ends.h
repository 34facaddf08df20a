// Where in the backward of a plan the gradient of each parameter is complete.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/nn/plan.h"

namespace paddle::nn {

// For each parameter, the number of ops of the backward up to and with the last one that writes its
// gradient; 1 if no op writes it.
std::vector<std::size_t> gradient_ends(const Plan& plan);

}  // namespace paddle::nn
