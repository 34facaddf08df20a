#include <fmt/format.h>

#include "cli/console/time_text.h"
#include "cli/job/process_state.h"
#include "cli/job/view.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {
namespace {

constexpr auto kWatchPeriod = std::chrono::seconds(2);

struct StatusOptions {
  JobTarget target;
  bool watch = false;
};

OptionList list_options(StatusOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          job_option(options.target),
          {"-w,--watch", "refresh every 2 seconds until the job ends", &options.watch}};
}

Cell whole(const std::optional<double>& value) {
  return value ? number_cell(*value, 0) : empty_cell();
}

Cell bytes(const std::optional<std::uint64_t>& total, const std::optional<double>& per_second) {
  if (per_second) {
    return text_cell(human_bytes(static_cast<std::uint64_t>(*per_second)) + "/s");
  }
  return total ? text_cell(human_bytes(*total)) : empty_cell();
}

std::vector<Cell> row_of(const ProcessView& process) {
  const auto& usage = process.status.usage;
  const bool learns = process.last.has_value();
  return {text_cell(process.node),
          text_cell(process.status.name),
          text_cell(describe_state(process.status)),
          learns ? number_cell(process.last->pass) : empty_cell(),
          learns ? number_cell(process.last->batch) : empty_cell(),
          learns && process.last->cost ? number_cell(*process.last->cost, 4) : empty_cell(),
          whole(process.examples_per_second),
          usage ? bytes(usage->received_bytes, process.received_per_second) : empty_cell(),
          usage ? bytes(usage->sent_bytes, process.sent_per_second) : empty_cell(),
          usage ? text_cell(human_bytes(usage->resident_bytes)) : empty_cell(),
          process.cores ? number_cell(*process.cores, 1) : empty_cell(),
          process.heard_ms_ago ? text_cell(span_text(*process.heard_ms_ago)) : empty_cell(),
          is_running(process.status) ? number_cell(static_cast<std::uint64_t>(process.status.pid))
                                     : empty_cell()};
}

std::string to_text(const JobView& view, const ConsoleOptions& console) {
  Table table{{{"node", ""},
               {"role", ""},
               {"state", ""},
               {"pass", "", 0, true},
               {"batch", "", 4, true},
               {"cost", "", 0, true},
               {"examples/s", "", 0, true},
               {"in", "", 2, true},
               {"out", "", 2, true},
               {"memory", "", 3, true},
               {"cores", "", 5, true},
               {"heard", "", 1, true},
               {"pid", "", 6, true}},
              {}};
  for (const ProcessView& process : view.processes()) table.rows.push_back(row_of(process));
  std::string text = to_text(table, console.columns, console.colour);
  for (const SlowTrainer& slow : slow_trainers(view.processes())) {
    text += escape_lines(describe(slow)) + "\n";
  }
  return text;
}

Json to_json(const ProcessView& process) {
  const remote::ProcessStatus& status = process.status;
  const auto& usage = status.usage;
  const bool learns = process.last.has_value();
  return Json::object(
      {{"node", process.node},
       {"role", status.name},
       {"state", describe_state(status)},
       {"pid", is_running(process.status) ? Json(status.pid) : Json()},
       {"pass", learns ? Json(process.last->pass) : Json()},
       {"batch", learns ? Json(process.last->batch) : Json()},
       {"cost", learns && process.last->cost ? Json::fixed(*process.last->cost, 4) : Json()},
       {"examples_per_second", whole(process.examples_per_second).json},
       {"received_bytes", usage ? Json(usage->received_bytes) : Json()},
       {"sent_bytes", usage ? Json(usage->sent_bytes) : Json()},
       {"received_per_second", whole(process.received_per_second).json},
       {"sent_per_second", whole(process.sent_per_second).json},
       {"resident_bytes", usage ? Json(usage->resident_bytes) : Json()},
       {"cpu_ms", usage ? Json(usage->cpu_ms) : Json()},
       {"heard_ms_ago", process.heard_ms_ago},
       {"started_unix_ms", status.started_unix_ms},
       {"ended_unix_ms", status.ended_unix_ms > 0 ? Json(status.ended_unix_ms) : Json()}});
}

Json to_json(const JobView& view) {
  std::vector<Json> processes;
  for (const ProcessView& process : view.processes()) processes.push_back(to_json(process));
  std::vector<Json> slow;
  for (const SlowTrainer& one : slow_trainers(view.processes())) {
    slow.push_back(Json::object({{"node", one.node},
                                 {"role", one.role},
                                 {"examples_per_second", Json::fixed(one.rate, 0)},
                                 {"median_of_others", Json::fixed(one.median, 0)},
                                 {"while_not_waiting", one.busy}}));
  }
  return Json::object(
      {{"job", view.job()}, {"processes", Json::list(processes)}, {"slow", Json::list(slow)}});
}

void show(Context& context, const JobView& view, bool watch) {
  Console& console = context.console;
  if (console.json()) return console.json_line(to_json(view));
  const std::string text = to_text(view, console.options());
  if (!watch) {
    console.note("job " + view.job());
    return console.raw(text);
  }
  console.repaint(fmt::format("job {}  {} UTC{}\n", escape_lines(view.job()),
                              utc_text(context.unix_seconds() * 1000),
                              console.repaints() ? "  (Ctrl-C stops looking)" : "") +
                  text);
}

Status run(Context& context, const StatusOptions& options) {
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kAllowed));
  ClusterSession& session = found.session;
  JobView view(found.name);
  if (options.watch && context.console.repaints()) context.console.raw("\x1b[2J");
  for (;;) {
    view.look(context, session);
    show(context, view, options.watch);
    if (!options.watch || context.console.closed()) break;
    if (!view.any_running() && session.unreachable() == 0) break;
    context.pause(kWatchPeriod);
    if (context.interrupted()) return {};
    session.reconnect(context);
  }
  return session.all_well();
}

}  // namespace

Command status_command() {
  return {"status", "show a job's processes: progress, resources used, slow trainers",
          "  paddlectl status\n"
          "  paddlectl status --watch\n"
          "  paddlectl status --json",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
