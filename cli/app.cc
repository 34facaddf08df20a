#include "cli/app.h"

#include <sstream>

#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/console/next_step.h"

namespace paddle::cli {
namespace {

int report(Context& context, const Error& error) {
  context.console.end_progress();
  const bool asked_for = error.code == Errc::kInterrupted || error.code == Errc::kResumable;
  if (asked_for && !context.console.json()) {
    // The user asked for this end, so it is a note and no error.
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
  context.console.set_json(wants_json(arguments));
  const auto line = parse_command_line(all_commands(), std::move(arguments));
  if (!line) return report(context, line.error());
  if (!line->help.empty()) {
    context.console.raw(line->help);
    return 0;
  }
  context.console.set_json(line->global.json);
  if (line->global.version) {
    (void)version_command().invoke().run(context);
    return 0;
  }
  if (!line->run) {
    context.console.raw(program_help(all_commands()));
    return static_cast<int>(Errc::kUsage);
  }
  context.limits = {std::chrono::seconds(line->global.timeout), line->global.parallel};
  if (!line->global.password_file.empty() && context.answers != nullptr) {
    if (const Status read = context.answers->use_password_file(line->global.password_file); !read)
      return report(context, read.error());
  }
  const Status done = line->run(context);
  return done ? 0 : report(context, done.error());
}

}  // namespace paddle::cli
