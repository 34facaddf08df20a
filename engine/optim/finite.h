// Search for infinities and NaNs.
#pragma once

#include <span>

namespace paddle::optim {

// True when no value is infinite or NaN.
bool all_finite(std::span<const float> values);

}  // namespace paddle::optim
