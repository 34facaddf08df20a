// Whether values can be trained with.
#pragma once

#include <span>

namespace paddle::optim {

// No infinity and no NaN among them.
bool all_finite(std::span<const float> values);

}  // namespace paddle::optim
