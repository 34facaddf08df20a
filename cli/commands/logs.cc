#include <fmt/format.h>

#include "cli/console/time_text.h"
#include "cli/logs/follow.h"
#include "cli/logs/line_pattern.h"
#include "cli/options/log_choice.h"

namespace paddle::cli {
namespace {

constexpr std::int64_t kFollowTailLines = 20;
constexpr std::uint32_t kTailLinesMax = 1000000;
constexpr auto kFollowPeriod = std::chrono::milliseconds(500);

struct LogsOptions {
  LogChoice chosen;
  std::int64_t tail = -1;  // lines; -1: all, or the last 20 with --follow
  std::string since;       // "10m", "2026-01-31T12:00:00Z"; "": everything
  std::string grep;        // an extended regular expression; "": every line
};

OptionList list_options(LogsOptions& options) {
  OptionList list = log_choice_options(options.chosen);
  list.insert(
      list.end(),
      {{"--tail", "only the last N lines of each log", &options.tail, "", 0, kTailLinesMax},
       {.name = "--since",
        .help = "only lines written since: 90s, 10m, 2h, 1d ago, or 2026-01-31T12:00:00Z",
        .target = &options.since,
        .excludes = {"--tail"}},
       {"--grep", "only lines that match this extended regular expression", &options.grep}});
  return list;
}

// One JSON object per line with --json.
void print(Context& context, const LogFollow& logs, const LogMerge::Line& line) {
  const LogSource& from = logs.source(line.source);
  if (context.console.json()) {
    context.console.json_line(Json::object({{"node", from.node},
                                            {"role", from.role},
                                            {"unix_ms", line.line.unix_ms},
                                            {"line", line.line.text}}));
    return;
  }
  std::string label = from.node + "/" + from.role;
  const std::size_t width = display_width(label);
  if (width < logs.label_width()) label.append(logs.label_width() - width, ' ');
  context.console.labelled(from.member, label, line.line.text);
}

LogFollowOptions reading(const LogsOptions& options) {
  LogFollowOptions reading;
  reading.since = options.since;
  reading.tail = options.tail;
  if (options.chosen.follow && options.tail < 0 && options.since.empty())
    reading.tail = kFollowTailLines;
  reading.wanted = [&options](const ProcessOnNode& process, const std::string& node) {
    return is_chosen(process, node, options.chosen);
  };
  return reading;
}

Status run(Context& context, const LogsOptions& options) {
  PADDLE_TRY(const LinePattern pattern, LinePattern::compile(options.grep));
  if (!options.since.empty()) {
    if (auto since = parse_since(options.since, 1); !since) return std::move(since).error();
  }
  PADDLE_TRY_STATUS(check_node(context, options.chosen));
  PADDLE_TRY(FoundJob found, find_job(context, options.chosen.target, Missing::kAllowed));
  LogFollow logs(context, found.session, found.name, reading(options));
  return print_all(context, found, logs, options.chosen, kFollowPeriod,
                   [&](const LogMerge::Line& line) {
                     if (pattern.matches(line.line.text)) print(context, logs, line);
                   });
}

}  // namespace

Command logs_command() {
  return {"logs", "print a job's logs in order of time, each line with its node and role",
          "  paddlectl logs -f\n"
          "  paddlectl logs --since 10m --grep 'warn|error'\n"
          "  paddlectl logs --node node-1 --role pserver --tail 50",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
