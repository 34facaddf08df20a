#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/text.h"
#include "engine/commands/command.h"
#include "engine/commands/supervision.h"

namespace paddle::commands {
namespace {

constexpr const Command* kCommands[] = {&kVersionCommand, &kPserverCommand,    &kTrainCommand,
                                        &kPlanCommand,    &kStatisticsCommand, &kTestCommand,
                                        &kPredictCommand, &kExportCommand,     &kNearestCommand,
                                        &kServeCommand,   &kVerifyCommand,     &kClientCommand};

constexpr const char* kHelp = R"(
`paddle help <command>` lists its flags. Every flag may also come from the
environment: PADDLE_INIT_TRAINER_ID=1 is --trainer_id=1; flags win.

examples:
  paddle train --local --config=job.toml --save_dir=output
  paddle test --snapshot=output/pass-00000
  paddle predict --snapshot=output/pass-00000 --data='new/*.txt'
  paddle nearest --snapshot=output/pass-00000 king water
  paddle serve --snapshot=output --port=8500
  paddle verify output
  paddle pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 \
    --num_gradient_servers=2
  paddle train --config=job.toml --trainer_id=0 --num_gradient_servers=2 \
    --pservers=127.0.0.1
)";

std::string program_help() {
  std::string text = "usage: paddle <command> [flags]\n\ncommands:\n";
  for (const Command* command : kCommands) {
    text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  }
  text += fmt::format("  {:<10} {}\n", "help", "show the help of a command");
  return text + kHelp;
}

bool is_help(const std::string& argument) {
  return argument == "--help" || argument == "-h";
}

// Commands of paddlectl that paddle does not have.
constexpr auto kCommandsOfPaddlectl = std::to_array<std::string_view>(
    {"init",    "up",     "check",   "trust", "cluster", "teardown", "attach",
     "wait",    "stop",   "restart", "rm",    "status",  "jobs",     "logs",
     "metrics", "report", "fetch",   "exec",  "put",     "get",      "render"});

Result<const Command*> find_command(const std::string& name) {
  std::vector<std::string_view> names{"help"};
  for (const Command* command : kCommands) {
    if (command->name == (name == "--version" ? "version" : name)) return command;
    names.emplace_back(command->name);
  }
  if (std::ranges::find(kCommandsOfPaddlectl, name) != kCommandsOfPaddlectl.end()) {
    return Error{Errc::kUsage, fmt::format("unknown command '{}'", name),
                 fmt::format("it is a command of paddlectl: see paddlectl {} --help", name)};
  }
  const std::string near = nearest(name, names);
  return Error{Errc::kUsage, fmt::format("unknown command '{}'", escape_control(name)),
               near.empty() ? "see paddle --help" : fmt::format("did you mean '{}'?", near)};
}

// Columns of the terminal, or the usual number if there is no terminal.
std::size_t help_width() {
  constexpr std::size_t kMin = 60, kUsual = 80, kMax = 100;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::clamp<std::size_t>(size.ws_col, kMin, kMax);
}

Status run_command(const Command& command, const std::vector<std::string>& arguments,
                   const char* const* environment) {
  FlagSet flags;
  const auto run = command.declare(flags);
  if (std::ranges::any_of(arguments, is_help)) {
    std::cout << command.usage << "\nflags:\n" << flags.help(help_width());
    return {};
  }
  PADDLE_TRY_STATUS(flags.parse_environment(environment));
  PADDLE_TRY_STATUS(flags.parse(arguments));
  return run();
}

// A failed write to stdout is an error, unless the reader has closed the pipe, as `| head` does.
Status flush_output() {
  if (std::cout.flush()) return {};
  pollfd item{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&item, 1, 0) == 1 && (item.revents & POLLERR) != 0) return {};
  return Error{Errc::kResource, "stdout cannot be written",
               "check the free space on its disk: df -h"};
}

}  // namespace

int exit_code(const Status& status) {
  if (status) return 0;
  notify_failed(status.error());
  // File names, and names inside files, may contain any characters.
  std::cerr << "paddle: " << escape_lines(status.error().message) << '\n';
  const std::string hint = escape_lines(status.error().hint);
  if (!hint.empty()) std::cerr << "hint: " << hint << '\n';
  return static_cast<int>(status.error().code);
}

int run_program(const std::vector<std::string>& arguments, const char* const* environment) {
  open_notices();
  if (const Status limits = prepare_limits("paddle"); !limits) return exit_code(limits);
  if (arguments.empty()) {
    std::cerr << program_help();
    return static_cast<int>(Errc::kUsage);
  }
  if (is_help(arguments[0])) {
    std::cout << program_help();
    return 0;
  }
  std::vector<std::string> words = arguments;
  if (words[0] == "help") {
    words.erase(words.begin());
    if (words.empty() || is_help(words[0])) {
      std::cout << program_help();
      return exit_code(flush_output());
    }
    words.resize(1);
    words.emplace_back("--help");
  }
  const auto command = find_command(words[0]);
  if (!command) return exit_code(command.error());
  Status status = run_command(**command, {words.begin() + 1, words.end()}, environment);
  const Status flushed = flush_output();
  return exit_code(status ? flushed : status);
}

}  // namespace paddle::commands
