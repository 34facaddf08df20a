// A generic hint for each error code, for errors that carry none.
#pragma once

#include <string_view>

#include "base/result.h"

namespace paddle::cli {

// "" for ends that the user asked for: an interruption, a stop that can go on.
std::string_view next_step(Errc code);

}  // namespace paddle::cli
