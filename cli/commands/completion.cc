#include "cli/manual/completion.h"

#include "cli/commands/commands.h"

namespace paddle::cli {
namespace {

struct CompletionOptions {
  std::string shell;
};

OptionList list_options(CompletionOptions& options) {
  return {{.name = "shell",
           .help = "bash, zsh or fish",
           .target = &options.shell,
           .choices = {"bash", "zsh", "fish"}}};
}

Status run(Context& context, const CompletionOptions& options) {
  if (options.shell.empty()) {
    return Error{Errc::kUsage, "completion needs the name of a shell",
                 "paddlectl completion bash, zsh or fish"};
  }
  const std::vector<CommandWords> words = words_of(all_commands());
  const std::string script = options.shell == "bash"  ? bash_completion(words)
                             : options.shell == "zsh" ? zsh_completion(words)
                                                      : fish_completion(words);
  context.console.raw(Json::object({{"script", script}}), script);
  return {};
}

}  // namespace

Command completion_command() {
  return {"completion", "a script for your shell that completes commands, options and their values",
          "  source <(paddlectl completion bash)\n"
          "  paddlectl completion zsh > ~/.zfunc/_paddlectl\n"
          "  paddlectl completion fish > ~/.config/fish/completions/paddlectl.fish",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
