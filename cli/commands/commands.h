// The table of paddlectl's subcommands. The files here hold their options, their words and
// their run functions; those that share more than that share a file.
#pragma once

#include <vector>

#include "cli/options/command.h"

namespace paddle::cli {

// In the order of --help.
const std::vector<Command>& all_commands();

// `paddlectl __complete`, after that word: prints values for a shell's completion.
void complete(Context& context, const std::vector<std::string>& arguments);

Command version_command();  // `paddlectl --version` runs it too

}  // namespace paddle::cli
