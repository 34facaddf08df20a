// The table of paddlectl's subcommands. Each file in this folder contains a command's options,
// texts and run function; commands that share more than that share a file.
#pragma once

#include <vector>

#include "cli/cluster/selection.h"
#include "cli/commands/command.h"

namespace paddle::cli {

// In the order of --help.
const std::vector<Command>& all_commands();

// Runs `paddlectl __complete`: prints values for a shell's completion. arguments: the words after
// `__complete`.
void complete(Context& context, const std::vector<std::string>& arguments);

// Prints that commands here now use another cluster than `before`, unless they use the same one.
void note_other_cluster(Context& context, const Result<CurrentCluster>& before);

Command version_command();  // `paddlectl --version` runs it too

}  // namespace paddle::cli
