// One run of paddlectl: its command line read, the command run, its error told.
#include <filesystem>
#include <sstream>

#include "cli/cluster/selection.h"
#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

// Relative where it is in the current directory.
std::string shown_file(const Context& context, const std::string& file) {
  const std::string inside =
      std::filesystem::path(file).lexically_relative(context.directory).string();
  return inside.empty() || inside.starts_with("..") ? file : inside;
}

void replace(std::string& text, std::string_view what, const std::string& with) {
  if (const auto at = text.find(what); at != text.npos) text.replace(at, what.size(), with);
}

// The hint with the names that this command was given, or would take by itself.
std::string with_names(const Context& context, std::string hint, const CommandLine& line) {
  std::string cluster = line.cluster;
  if (const auto current = find_current(context.directory); cluster.empty() && current)
    cluster = shown_file(context, current->file);
  if (!cluster.empty()) replace(hint, "<cluster file>", cluster);
  if (line.workspace == ".") {
    replace(hint, " <workspace>", "");  // as the command was given
  } else if (!line.workspace.empty()) {
    replace(hint, "<workspace>", line.workspace);
  }
  return hint;
}

int report(Context& context, Error error, const CommandLine& given = {}) {
  error.hint = with_names(context, std::move(error.hint), given);
  context.console.end_progress();
  const bool asked_for = error.code == Errc::kInterrupted || error.code == Errc::kResumable;
  if (asked_for && !context.console.json()) {
    // The user asked for this end, so it is a note and no error.
    std::istringstream lines(error.message + (error.hint.empty() ? "" : "\n" + error.hint));
    for (std::string line; std::getline(lines, line);) context.console.note(line);
  } else {
    if (error.hint.empty()) error.hint = next_step(error);
    context.console.error(error);
  }
  return static_cast<int>(error.code);
}

}  // namespace

int run_app(Context& context, std::vector<std::string> arguments) {
  context.arguments = arguments;
  if (!arguments.empty() && arguments.front() == "__complete") {
    complete(context, {arguments.begin() + 1, arguments.end()});
    return 0;
  }
  context.console.set_json(wants_json(arguments));
  const auto line = parse_command_line(all_commands(), std::move(arguments));
  if (!line) return report(context, line.error());
  context.command_at = line->command_at;
  context.help = [](const std::string& command) { return command_help(all_commands(), command); };
  if (!line->help.empty()) {
    context.console.raw(line->help);
    return 0;
  }
  context.console.set_json(line->global.json);
  if (line->global.version) {
    (void)version_command().invoke().run(context);
    return 0;
  }
  if (!line->run && context.console.json()) {
    return report(context, {Errc::kUsage, "no command was given", "see paddlectl --help"});
  }
  if (!line->run) {
    context.console.raw(program_help(all_commands()));
    return static_cast<int>(Errc::kUsage);
  }
  context.limits = {std::chrono::seconds(line->global.timeout), line->global.parallel,
                    line->global.allow_proxy_command};
  if (!line->global.password_file.empty() && context.answers != nullptr) {
    if (const Status read = context.answers->use_password_file(line->global.password_file); !read)
      return report(context, read.error());
  }
  const Status done = line->run(context);
  return done ? 0 : report(context, done.error(), *line);
}

}  // namespace paddle::cli
