#include "cli/app.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands/command_options.h"
#include "cli/commands/commands.h"
#include "cli/console/next_step.h"

namespace paddle::cli {
namespace {

constexpr const char* kAbout =
    "paddlectl turns servers that you can reach over SSH into a training cluster.\n"
    "\n"
    "  paddlectl up clusters/local.toml\n"
    "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
    "  paddlectl status | logs -f | fetch\n"
    "  paddlectl teardown\n";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 version, 4 unreachable, 5 "
    "authentication,\n"
    "6 data, 7 resource (port, disk, memory), 75 stopped and can go on, 130 interrupted.";
constexpr const char* kCheckAlias = "doctor";

// The first argument that is not a command or a known flag, with the nearest known word.
Error usage_error(const CLI::App* command, const std::vector<std::string>& arguments,
                  const std::string& message) {
  Error error{Errc::kUsage, message, "see paddlectl --help"};
  if (command == nullptr) return error;
  error.hint = fmt::format("see paddlectl {} --help", command->get_name());
  std::vector<std::string> known;
  for (const CLI::App* const app : {command, command->get_parent()}) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--") || std::ranges::find(known, flag) != known.end()) continue;
    error.message = fmt::format("unknown option '{}'", flag);
    if (const std::string near = nearest(flag, names); !near.empty())
      error.message += fmt::format(", did you mean '{}'?", near);
    return error;
  }
  return error;
}

// The word in the command's place: the first that is neither an option nor a global option's value.
// "" where there is none.
Result<std::string> command_in(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) return arguments[i];
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) {
      std::vector<std::string_view> names;
      for (const CLI::Option* one : app.get_options()) {
        for (const std::string& long_name : one->get_lnames()) names.push_back(long_name);
      }
      const std::string near =
          nearest(name.substr(name.find_first_not_of('-') % name.size()), names);
      return Error{Errc::kUsage,
                   fmt::format("unknown option '{}' before the command{}", name,
                               near.empty() ? "" : fmt::format(", did you mean '--{}'?", near)),
                   "options of a command stand behind it: paddlectl status --cluster lab.toml"};
    }
    if (equals == std::string::npos && option->get_items_expected_max() > 0) ++i;
  }
  return std::string();
}

// A failed check leaves no chosen command in CLI11.
std::string help_of(const std::string& word) {
  for (const Command& command : all_commands()) {
    if (word == command.name) return fmt::format("see paddlectl {} --help", command.name);
  }
  return "see paddlectl --help";
}

Status check_command(const std::string& word) {
  if (word.empty()) return {};
  std::vector<std::string_view> names;
  for (const Command& command : all_commands()) names.push_back(command.name);
  names.emplace_back(kCheckAlias);
  if (std::ranges::find(names, word) != names.end()) return {};
  std::string message = fmt::format("unknown command '{}'", word);
  if (const std::string near = nearest(word, names); !near.empty())
    message += fmt::format(", did you mean '{}'?", near);
  return Error{Errc::kUsage, message, "see paddlectl --help"};
}

int report(Context& context, const Error& error) {
  context.console.end_progress();
  const bool asked_for = error.code == Errc::kInterrupted || error.code == Errc::kResumable;
  if (asked_for && !context.console.json()) {
    // Asked for, so no error to the reader.
    std::istringstream lines(error.message + (error.hint.empty() ? "" : "\n" + error.hint));
    for (std::string line; std::getline(lines, line);) context.console.note(line);
  } else {
    Error told = error;
    if (told.hint.empty()) told.hint = next_step(told.code);
    context.console.error(told);
  }
  return static_cast<int>(error.code);
}

}  // namespace

int run_app(Context& context, std::vector<std::string> arguments) {
  // Before anything is parsed, so that what cannot be parsed is told as JSON too.
  context.console.set_json(std::find(arguments.begin(), std::ranges::find(arguments, "--"),
                                     "--json") != std::ranges::find(arguments, "--"));
  CLI::App app{kAbout, "paddlectl"};
  app.footer(kExitCodes);
  GlobalOptions global;
  add_global_options(app, global);
  const auto found = command_in(app, arguments);
  if (!found) return report(context, found.error());
  const std::string& word = *found;
  if (const auto known = check_command(word); !known) return report(context, known.error());
  CommandOptions options;
  std::map<const CLI::App*, const Command*> commands;
  for (const Command& command : all_commands()) {
    const std::string name(command.name);
    CLI::App* const sub = app.add_subcommand(name, std::string(command.summary));
    sub->footer(
        "Every command takes --json; where it talks to nodes also --timeout, --parallel and\n"
        "--password-file, see paddlectl --help. Examples:\n" +
        std::string(command.examples));
    add_options(*sub, name, options);
    if (name == "check") sub->alias(kCheckAlias);
    commands[sub] = &command;
  }
  app.require_subcommand(0, 1);
  const std::vector<std::string> given = arguments;
  std::vector<std::string> after_dashes;
  try {
    // What follows -- is a command for the nodes, whatever it looks like.
    const auto dashes = std::ranges::find(arguments, "--");
    if (dashes != arguments.end()) {
      after_dashes.assign(dashes + 1, arguments.end());
      arguments.erase(dashes, arguments.end());
    }
    std::ranges::reverse(arguments);  // CLI11 takes its vector from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    context.console.raw(chosen.empty() ? app.help() : chosen.front()->help("paddlectl"));
    return 0;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (!unknown) {
      return report(context, Error{Errc::kUsage, error.what(), help_of(word)});
    }
    return report(context,
                  usage_error(chosen.empty() ? nullptr : chosen.front(), given, error.what()));
  }
  context.console.set_json(global.json);
  const auto chosen = app.get_subcommands();
  if (global.version) {
    (void)run_version(context, options);
    return 0;
  }
  if (chosen.empty()) {
    context.console.raw(app.help());
    return static_cast<int>(Errc::kUsage);
  }
  context.limits = {std::chrono::seconds(global.timeout), global.parallel};
  if (!global.password_file.empty() && context.answers != nullptr) {
    if (const Status read = context.answers->use_password_file(global.password_file); !read)
      return report(context, read.error());
  }
  options.command.insert(options.command.end(), after_dashes.begin(), after_dashes.end());
  options.command_line = &app;
  const auto done = commands.at(chosen.front())->run(context, options);
  return done ? 0 : report(context, done.error());
}

}  // namespace paddle::cli
