// The program and its subcommands as data: names, options and functions to run. cli/command_line.cc
// passes the options to CLI11; completions and the man page are made from the same rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// The variable that receives an option's value; its type determines the values that the option
// takes.
using OptionTarget =
    std::variant<bool*, std::string*, std::uint32_t*, std::optional<std::uint32_t>*, std::int64_t*,
                 std::vector<std::string>*>;

// One option ("--job", "-f,--follow"), or an argument ("workspace").
struct Option {
  std::string_view name;
  std::string_view help;
  OptionTarget target;
  std::string_view value_name = {};         // "FILE" and "DIR" complete paths; "": by type
  std::uint32_t min = 0, max = UINT32_MAX;  // for a number
  std::vector<std::string> choices = {};    // the only values; empty: any
  std::vector<std::string> excludes = {};   // options that it excludes
  bool required = false;                    // for an argument

  bool is_positional() const { return !name.starts_with('-'); }
  bool is_number() const {
    return std::holds_alternative<std::uint32_t*>(target) ||
           std::holds_alternative<std::optional<std::uint32_t>*>(target) ||
           std::holds_alternative<std::int64_t*>(target);
  }
  bool is_flag() const { return std::holds_alternative<bool*>(target); }
  // Null unless the option takes any number of values.
  std::vector<std::string>* list() const {
    const auto* const values = std::get_if<std::vector<std::string>*>(&target);
    return values != nullptr ? *values : nullptr;
  }
};
using OptionList = std::vector<Option>;

// A command that is about to run: the options to read, and the call that uses their values. The
// caller prints the result's error; its code is the exit code.
struct Invocation {
  OptionList options;
  std::function<Status(Context&)> run;
};

struct Command {
  std::string_view name;
  std::string_view summary;   // an imperative or a noun phrase
  std::string_view examples;  // indented lines
  Invocation (*invoke)();
  std::string_view alias = {};
  std::string_view group = {};  // its heading in --help
};

// `Options` stores the values; list_options connects each option with its variable.
template <class Options>
Invocation invocation(OptionList (*list_options)(Options&),
                      Status (*run)(Context&, const Options&)) {
  const auto options = std::make_shared<Options>();
  return {list_options(*options),
          [options, run](Context& context) { return run(context, *options); }};
}

inline Invocation invocation(Status (*run)(Context&)) {
  return {{}, run};
}

// The texts and options of `paddlectl` itself, before any command.
inline constexpr const char* kAbout =
    "paddlectl turns servers that you can reach over SSH into a training cluster.\n"
    "\n"
    "  paddlectl up clusters/local.toml\n"
    "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
    "  paddlectl status | logs -f | fetch\n"
    "  paddlectl teardown\n";
inline constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 version, 4 unreachable, 5 "
    "authentication, 6 data, 7 resource (port, disk, memory), 75 stopped and can continue, 130 "
    "interrupted.";

// The value name of an option that takes "90", "90s", "10m", "2h" or "1d"; its target is in
// seconds.
inline constexpr std::string_view kDuration = "DURATION";

// The option's value name or, if it has none, "N" for a number, else "TEXT".
std::string_view value_name_of(const Option& option);

constexpr std::uint32_t kProcessesMax = 4096;

struct GlobalOptions {
  bool json = false;
  bool version = false;
  std::string password_file;
  std::uint32_t timeout = 0;  // seconds; 0: the defaults
  std::uint32_t parallel = kNodesAtOnce;
  bool allow_proxy_command = false;
};
OptionList global_options(GlobalOptions& options);

// The text below a command's options in --help and in the manual.
std::string footer_of(const Command& command);

}  // namespace paddle::cli
