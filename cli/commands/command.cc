#include "cli/commands/command.h"

#include <algorithm>

namespace paddle::cli {
namespace {

constexpr std::uint32_t kTimeoutSecondsMax = 7 * 24 * 3600;

}  // namespace

OptionList global_options(GlobalOptions& options) {
  return {
      {"--json",
       "print results as JSON on stdout and an error as one JSON line on stderr; notes stay text",
       &options.json},
      {"-V,--version", "print the version", &options.version},
      {"--password-file",
       "log in with the password in this file (mode 0600) where no key is accepted; without it you "
       "are asked",
       &options.password_file, "FILE"},
      {"--timeout",
       "time limit for reaching a node and for each reply, such as 90s, 10m or 2h (default: 20s "
       "and "
       "30s); also limits commands run by exec, and how long wait waits",
       &options.timeout, kDuration, 1, kTimeoutSecondsMax},
      {"--parallel", "nodes worked on at a time; default: 32", &options.parallel, "N", 1,
       kProcessesMax},
      {"--allow-proxy-command",
       "run the programs (ProxyCommand, Match exec) that the ssh config in a cluster file's [ssh] "
       "directory names; those of ~/.ssh/config always run",
       &options.allow_proxy_command},
  };
}

std::string footer_of(const Command& command) {
  const OptionList options = command.invoke().options;
  const bool reaches_nodes = std::ranges::any_of(options, [](const Option& option) {
    return option.name == "--cluster" || option.name == "cluster";
  });
  return std::string(reaches_nodes ? "Also takes --timeout, --parallel, --password-file, --json: "
                                     "paddlectl --help.\n"
                                   : "") +
         "Examples:\n" + std::string(command.examples);
}

std::string_view value_name_of(const Option& option) {
  if (!option.value_name.empty()) return option.value_name;
  return option.is_number() ? "N" : "TEXT";
}

}  // namespace paddle::cli
