// What a user can do about an error whose own place knows nothing better.
#pragma once

#include <string_view>

#include "base/result.h"

namespace paddle::cli {

// "" for what was asked for: an interruption, a stop that can go on.
std::string_view next_step(Errc code);

}  // namespace paddle::cli
