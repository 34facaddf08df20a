#include "cli/commands/commands.h"
#include "cli/manual/man_page.h"

namespace paddle::cli {
namespace {

Status run(Context& context) {
  const std::string page = man_page(words_of(all_commands()));
  context.console.raw(Json::object({{"page", page}}), page);
  return {};
}

}  // namespace

Command man_command() {
  return {"man", "this manual as a page for man(1)",
          "  paddlectl man > ~/.local/share/man/man1/paddlectl.1\n"
          "  paddlectl man | man -l -",
          [] { return invocation(run); }};
}

}  // namespace paddle::cli
