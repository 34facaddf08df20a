// What stands behind `paddlectl` and behind each command's name: options, their help and their
// limits.
#pragma once

#include <cstdint>
#include <string>

#include "cli/cluster/context.h"
#include "cli/commands/commands.h"

namespace paddle::cli {

struct GlobalOptions {
  bool json = false;
  bool version = false;
  std::string password_file;
  std::uint32_t timeout = 0;  // seconds; 0: by default
  std::uint32_t parallel = kNodesAtOnce;
};

void add_global_options(CLI::App& app, GlobalOptions& global);
// Of the command of this name, to be read into `options`.
void add_options(CLI::App& app, const std::string& name, CommandOptions& options);

}  // namespace paddle::cli
