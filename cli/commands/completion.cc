#include "cli/manual/completion.h"

#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/manual/man_page.h"

namespace paddle::cli {
namespace {

void print(Context& context, const char* key, const std::string& text) {
  if (context.console.json()) return context.console.json_line(Json::object({{key, text}}));
  context.console.raw(text);
}

}  // namespace

Status run_completion(Context& context, const CommandOptions& options) {
  const std::vector<CommandWords> words = words_of(*options.command_line);
  if (options.shell_name.empty()) {
    return Error{Errc::kUsage, "completion needs the name of a shell",
                 "paddlectl completion bash, zsh or fish"};
  }
  print(context, "script",
        options.shell_name == "bash"  ? bash_completion(words)
        : options.shell_name == "zsh" ? zsh_completion(words)
                                      : fish_completion(words));
  return {};
}

Status run_man(Context& context, const CommandOptions& options) {
  print(context, "page", man_page(words_of(*options.command_line)));
  return {};
}

}  // namespace paddle::cli
