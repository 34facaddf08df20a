// Places in the backward of a plan from which on a gradient is complete.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/nn/plan/plan.h"

namespace paddle::nn {

// By parameter: how many ops of the backward have run when the last one that writes its gradient
// has; 1 where none does.
std::vector<std::size_t> gradient_ends(const Plan& plan);

}  // namespace paddle::nn
