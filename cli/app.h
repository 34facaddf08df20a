// The command line of paddlectl.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/context.h"

namespace paddle::cli {

// Runs one command and returns the exit code: 0 or an Errc. arguments: without the program's name.
int run_app(Context& context, std::vector<std::string> arguments);

}  // namespace paddle::cli
