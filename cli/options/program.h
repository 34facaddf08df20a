// The words and options of `paddlectl` itself, before any command.
#pragma once

#include <cstdint>
#include <string>

#include "cli/options/command.h"

namespace paddle::cli {

inline constexpr const char* kAbout =
    "paddlectl turns servers that you can reach over SSH into a training cluster.\n"
    "\n"
    "  paddlectl up clusters/local.toml\n"
    "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
    "  paddlectl status | logs -f | fetch\n"
    "  paddlectl teardown\n";
inline constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 version, 4 unreachable, 5 "
    "authentication,\n"
    "6 data, 7 resource (port, disk, memory), 75 stopped and can go on, 130 interrupted.";

struct GlobalOptions {
  bool json = false;
  bool version = false;
  std::string password_file;
  std::uint32_t timeout = 0;  // seconds; 0: the defaults
  std::uint32_t parallel = kNodesAtOnce;
};
OptionList global_options(GlobalOptions& options);

// The text below a command's options in --help and in the manual.
std::string footer_of(const Command& command);

}  // namespace paddle::cli
