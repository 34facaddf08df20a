#include "cli/options/command.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kTimeoutSecondsMax = 7 * 24 * 3600;

}  // namespace

OptionList global_options(GlobalOptions& options) {
  return {
      {"--json",
       "print results as JSON on stdout and an error as one JSON line on stderr; notes stay text",
       &options.json},
      {"--version", "print the version", &options.version},
      {"--password-file",
       "log in with the password in this file (mode 0600) where no key is accepted; without it you "
       "are asked",
       &options.password_file, "FILE"},
      {"--timeout",
       "give up on a node that cannot be reached, or does not answer, for this many seconds; also "
       "limits the command of exec; default: 20 to reach it, 30 for an answer",
       &options.timeout, "SECONDS", 1, kTimeoutSecondsMax},
      {"--parallel", "nodes worked on at a time; default: 32", &options.parallel, "NODES", 1,
       kProcessesMax},
  };
}

std::string footer_of(const Command& command) {
  return "Every command takes --json; where it talks to nodes also --timeout, --parallel and\n"
         "--password-file, see paddlectl --help. Examples:\n" +
         std::string(command.examples);
}

}  // namespace paddle::cli
