// What `paddle version` prints.
#pragma once

#include <string>

namespace paddle {

// "PaddlePaddle ..., compiled with" and an option a line, as in v0.10.
std::string build_options();

}  // namespace paddle
