// logs: the lines that the processes of a job wrote, into their logs or their metrics.
#include <algorithm>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "base/text.h"
#include "base/text_file.h"
#include "cli/commands/shared_options.h"
#include "cli/console/json.h"
#include "cli/console/time_text.h"
#include "cli/watch/log_follow.h"
#include "cli/watch/log_line.h"
#include "cli/watch/metrics_line.h"

namespace paddle::cli {
namespace {

struct LogChoice {
  JobTarget target;
  bool follow = false;
  bool previous = false;
  std::string role;  // "pserver" and "trainer" are roles, "trainer-2" is one process; "": all
};

Error nothing_chosen(const std::string& job, const LogChoice& choice) {
  if (choice.previous) {
    return {Errc::kUsage,
            fmt::format("job {} has no earlier logs: each of its processes was started once", job),
            "see its logs without --previous: paddlectl logs --job " + job};
  }
  return {
      Errc::kUsage,
      fmt::format("job {} has no {}{}", job,
                  choice.role.empty() ? "process" : "'" + choice.role + "'",
                  choice.target.on.empty() ? "" : " on " + choice.target.on),
      fmt::format(
          "use pserver, trainer, or one process such as trainer-2; see paddlectl status --job {}",
          job)};
}

OptionList log_choice_options(LogChoice& choice) {
  return {
      cluster_option(choice.target.cluster),
      on_option(choice.target.on),
      job_option(choice.target),
      job_argument(choice.target),
      {"-f,--follow", "follow new lines until the job ends", &choice.follow},
      {"--role", "pserver, trainer, or one process like trainer-2", &choice.role, "ROLE"},
  };
}

bool is_chosen(const ProcessOnNode& process, const LogChoice& choice) {
  const std::string& name = process.status.name;
  return choice.role.empty() || name == choice.role || name.starts_with(choice.role + "-");
}

// Prints the lines in order of time: all existing lines, or with --follow until the job ends.
Status print_all(Context& context, FoundJob& job, LogFollow& logs, const LogChoice& choice,
                 Duration period, const std::function<void(const LogMerge::Line&)>& print) {
  for (;;) {
    const Status read = logs.read(choice.follow);
    while (const auto line = logs.next()) {
      if (context.interrupted() || context.console.closed()) break;
      print(*line);
    }
    if (context.console.closed()) return {};
    if (context.interrupted())
      return Error{Errc::kInterrupted, "interrupted; the job keeps running", ""};
    PADDLE_TRY_STATUS(read);
    PADDLE_TRY_STATUS(job.session.all_well());
    if (logs.size() == 0) return nothing_chosen(job.name, choice);
    if (logs.all_read() && (!choice.follow || !logs.any_running())) return {};
    if (choice.follow) context.pause(period);
  }
}

constexpr std::int64_t kFollowTailLines = 20;
constexpr std::uint32_t kTailLinesMax = 1000000;
constexpr auto kLogsPeriod = std::chrono::milliseconds(500);

struct LogsOptions {
  LogChoice chosen;
  std::int64_t tail = -1;  // lines; -1: all, or the last 20 with --follow
  std::string since;       // "10m", "2026-01-31T12:00:00Z"; "": everything
  std::string grep;        // an extended regular expression; "": every line
  bool metrics = false;    // the lines of metrics instead of those of the logs
};

OptionList logs_options(LogsOptions& options) {
  OptionList list = log_choice_options(options.chosen);
  list.insert(
      list.end(),
      {{"-n,--tail", "only the last N lines, of all logs together; default with -f: 20",
        &options.tail, "N", 0, kTailLinesMax},
       {"--since", "only lines written since: 90s, 10m, 2h, 1d ago, or 2026-01-31T12:00:00Z",
        &options.since, "TIME"},
       {.name = "-p,--previous",
        .help = "only what each process logged before its last start",
        .target = &options.chosen.previous,
        .excludes = {"--follow"}},
       {"--grep", "only lines that match this extended regular expression", &options.grep,
        "PATTERN"},
       {.name = "--metrics",
        .help = "the metrics instead of the logs, as JSON lines",
        .target = &options.metrics,
        .excludes = {"--previous", "--since"}}});
  return list;
}

// One JSON object per line with --json.
void print_line(Context& context, const LogFollow& logs, const LogMerge::Line& line) {
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
  context.console.labelled(from.member, label, shown_line(line.line.text));
}

// Prints the line unchanged, with its node and role before its own fields. Leaves out damaged lines
// and lines with control characters, because programs read this output. A number that JSON cannot
// express becomes null; a byte order mark is left out.
void print_metrics(Context& context, const LogFollow& logs, const LogMerge::Line& line) {
  const std::string text = strict_json(without_byte_order_mark(line.line.text));
  if (!parse_metrics(text) || escape_control(text) != text) return;
  const LogSource& from = logs.source(line.source);
  const auto brace = text.find('{');
  context.console.raw(fmt::format("{{\"node\":{},\"role\":{},{}\n", Json(from.node).text(),
                                  Json(from.role).text(), text.substr(brace + 1)));
}

LogFollowOptions reading(const LogsOptions& options) {
  LogFollowOptions reading;
  reading.since = options.since;
  reading.tail = options.tail;
  reading.previous = options.chosen.previous;
  if (options.chosen.follow && options.tail < 0 && options.since.empty())
    reading.tail = kFollowTailLines;
  reading.wanted = [&options](const ProcessOnNode& process, const std::string&) {
    return is_chosen(process, options.chosen);
  };
  if (!options.metrics) return reading;
  reading.path = [](const remote::ProcessStatus& status) { return metrics_path(status.log); };
  reading.time_of = [](const std::string& line) {
    const auto parsed = parse_metrics(line);
    return parsed ? parsed->unix_ms : 0;
  };
  return reading;
}

Status run_logs(Context& context, const LogsOptions& options) {
  PADDLE_TRY(const LinePattern pattern, LinePattern::compile(options.grep));
  if (!options.since.empty()) {
    if (auto since = parse_since(options.since, 1); !since) return std::move(since).error();
  }
  PADDLE_TRY(FoundJob found, find_job(context, options.chosen.target, Missing::kAllowedIfLeftOut));
  LogFollow logs(context, found.session, found.name, reading(options));
  return print_all(
      context, found, logs, options.chosen, kLogsPeriod, [&](const LogMerge::Line& line) {
        const std::string& text = line.line.text;
        if (!pattern.matches(text) && !pattern.matches(shown_line(text))) return;
        options.metrics ? print_metrics(context, logs, line) : print_line(context, logs, line);
      });
}

}  // namespace

Command logs_command() {
  return {"logs", "print a job's logs in order of time, each line with its node and role",
          "  paddlectl logs -f\n"
          "  paddlectl logs --since 10m --grep 'warn|error'\n"
          "  paddlectl logs --on node-1 --role pserver -n 50\n"
          "  paddlectl logs --metrics --role trainer-0",
          [] { return invocation(logs_options, run_logs); }};
}

}  // namespace paddle::cli
