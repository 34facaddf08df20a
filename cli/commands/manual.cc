// completion, man, help and version: prints descriptions of paddlectl itself.
#include <sstream>

#include <fmt/format.h>

#include "base/version.h"
#include "cli/commands/commands.h"
#include "cli/commands/manual_page.h"

namespace paddle::cli {
namespace {

struct HelpOptions {
  std::string command;  // "": the list of all commands
};

OptionList help_options(HelpOptions& options) {
  return {{"command", "the command; default: the list of all", &options.command, "COMMAND"}};
}

Status run_help(Context& context, const HelpOptions& options) {
  PADDLE_TRY(const std::string text, context.help(options.command));
  context.console.raw(Json::object({{"help", text}}), text);
  return {};
}

struct CompletionOptions {
  std::string shell;
};

OptionList completion_options(CompletionOptions& options) {
  return {{.name = "shell",
           .help = "bash, zsh or fish",
           .target = &options.shell,
           .choices = {"bash", "zsh", "fish"},
           .required = true}};
}

Status run_completion(Context& context, const CompletionOptions& options) {
  const std::vector<CommandWords> words = words_of(all_commands());
  const std::string script = options.shell == "bash"  ? bash_completion(words)
                             : options.shell == "zsh" ? zsh_completion(words)
                                                      : fish_completion(words);
  context.console.raw(Json::object({{"script", script}}), script);
  return {};
}

Status run_man(Context& context) {
  const std::string page = man_page(words_of(all_commands()));
  context.console.raw(Json::object({{"page", page}}), page);
  return {};
}

struct VersionOptions {
  bool libraries = false;
};

OptionList version_options(VersionOptions& options) {
  return {{"--libraries",
           "print each library that paddlectl contains, with its version, and each of this machine "
           "that it uses",
           &options.libraries}};
}

Status run_version(Context& context, const VersionOptions& options) {
  if (options.libraries) {
    const std::string text = linked_libraries();
    std::vector<Json> libraries;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) libraries.emplace_back(line);
    context.console.raw(Json::object({{"libraries", Json::list(libraries)}}), text);
    return {};
  }
  context.console.result(
      Json::object({{"version", kProgramVersion}, {"ssh_library", context.ssh_library}}),
      fmt::format("paddlectl {} ({})", kProgramVersion, context.ssh_library));
  return {};
}

}  // namespace

Command help_command() {
  return {"help", "show the help of a command, or the list of all", "  paddlectl help train",
          [] { return invocation(help_options, run_help); }};
}

Command completion_command() {
  return {"completion",
          "print a script with which your shell completes commands, options and their values",
          "  source <(paddlectl completion bash)\n"
          "  paddlectl completion zsh > ~/.zfunc/_paddlectl\n"
          "  paddlectl completion fish > ~/.config/fish/completions/paddlectl.fish",
          [] { return invocation(completion_options, run_completion); }};
}

Command man_command() {
  return {"man", "print this manual as a page for man(1)",
          "  paddlectl man > ~/.local/share/man/man1/paddlectl.1\n"
          "  paddlectl man | man -l -",
          [] { return invocation(run_man); }};
}

Command version_command() {
  return {"version", "print the version, and that of the SSH library",
          "  paddlectl version\n"
          "  paddlectl version --libraries",
          [] { return invocation(version_options, run_version); }};
}

}  // namespace paddle::cli
