// The command line of paddlectl.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/context.h"

namespace paddle::cli {

// Runs one command; arguments are without the program's name. The exit code: 0 or an Errc's value.
int run_app(Context& context, std::vector<std::string> arguments);

}  // namespace paddle::cli
