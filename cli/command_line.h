// Parses paddlectl's command line and runs the command in it. Only command_line.cc includes CLI11,
// which takes seconds to compile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/context.h"
#include "cli/commands/command.h"

namespace paddle::cli {

// One of: help to print, no command at all, or a command ready to run.
struct CommandLine {
  GlobalOptions global;
  std::string help;                     // asked for with --help
  std::function<Status(Context&)> run;  // null: no command was named
  std::string cluster, workspace;       // from the command line, for hints
  std::size_t command_at = 0;           // the index of the command among the arguments
};

// Whether --json comes before "--". Needs no full parse, so that usage errors are JSON too.
bool wants_json(const std::vector<std::string>& arguments);

// kUsage: names the wrong word and the nearest known one. Words after "--" go to the command
// unchanged.
Result<CommandLine> parse_command_line(const std::vector<Command>& commands,
                                       std::vector<std::string> arguments);

// `paddlectl COMMAND --help`; for "": program_help(). kUsage: there is no such command.
Result<std::string> command_help(const std::vector<Command>& commands, const std::string& command);
// `paddlectl --help`.
std::string program_help(const std::vector<Command>& commands);

// Runs one command and returns the exit code: 0 or an Errc. arguments: without the program's name.
int run_app(Context& context, std::vector<std::string> arguments);

}  // namespace paddle::cli
