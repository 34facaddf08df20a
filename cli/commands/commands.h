// The table of paddlectl's subcommands. Each one has a file of its own here, which holds its
// options, its words and its run function.
#pragma once

#include <vector>

#include "cli/options/command.h"

namespace paddle::cli {

// In the order of --help.
const std::vector<Command>& all_commands();

Command version_command();  // `paddlectl --version` runs it too

}  // namespace paddle::cli
