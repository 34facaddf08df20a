#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/cluster/node_selection.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/console/time_text.h"
#include "cli/job/view.h"
#include "cli/job/watch.h"

namespace paddle::cli {
namespace {

constexpr auto kWatchPeriod = std::chrono::seconds(2);

Cell whole(const std::optional<double>& value) {
  return value ? number_cell(*value, 0) : empty_cell();
}

Cell bytes(const std::optional<std::uint64_t>& total, const std::optional<double>& per_second) {
  if (per_second) {
    return text_cell(human_bytes(static_cast<std::uint64_t>(*per_second)) + "/s");
  }
  return total ? text_cell(human_bytes(*total)) : empty_cell();
}

bool runs(const ProcessView& process) {
  return process.status.state == remote::ProcessState::kRunning;
}

std::vector<Cell> row_of(const ProcessView& process) {
  const auto& usage = process.status.usage;
  const bool learns = process.last.has_value();
  return {
      text_cell(process.node),
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
      runs(process) ? number_cell(static_cast<std::uint64_t>(process.status.pid)) : empty_cell()};
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

template <class Value>
std::string or_null(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : "null";
}

std::string to_json(const ProcessView& process) {
  const remote::ProcessStatus& status = process.status;
  const auto& usage = status.usage;
  const bool learns = process.last.has_value();
  return json_object(
      {{"node", json_string(process.node)},
       {"role", json_string(status.name)},
       {"state", json_string(describe_state(status))},
       {"pid", runs(process) ? fmt::format("{}", status.pid) : "null"},
       {"pass", learns ? fmt::format("{}", process.last->pass) : "null"},
       {"batch", learns ? fmt::format("{}", process.last->batch) : "null"},
       {"cost", learns && process.last->cost ? number_cell(*process.last->cost, 4).json : "null"},
       {"examples_per_second", whole(process.examples_per_second).json},
       {"received_bytes", usage ? or_null(usage->received_bytes) : "null"},
       {"sent_bytes", usage ? or_null(usage->sent_bytes) : "null"},
       {"received_per_second", whole(process.received_per_second).json},
       {"sent_per_second", whole(process.sent_per_second).json},
       {"resident_bytes", usage ? fmt::format("{}", usage->resident_bytes) : "null"},
       {"cpu_ms", usage ? fmt::format("{}", usage->cpu_ms) : "null"},
       {"heard_ms_ago", or_null(process.heard_ms_ago)},
       {"started_unix_ms", fmt::format("{}", status.started_unix_ms)},
       {"ended_unix_ms",
        status.ended_unix_ms > 0 ? fmt::format("{}", status.ended_unix_ms) : "null"}});
}

std::string to_json(const JobView& view) {
  std::vector<std::string> processes;
  for (const ProcessView& process : view.processes()) processes.push_back(to_json(process));
  std::vector<std::string> slow;
  for (const SlowTrainer& one : slow_trainers(view.processes())) {
    slow.push_back(json_object({{"node", json_string(one.node)},
                                {"role", json_string(one.role)},
                                {"examples_per_second", fmt::format("{:.0f}", one.rate)},
                                {"median_of_others", fmt::format("{:.0f}", one.median)},
                                {"while_not_waiting", one.busy ? "true" : "false"}}));
  }
  return json_object({{"job", json_string(view.job())},
                      {"processes", json_array(processes)},
                      {"slow", json_array(slow)}}) +
         "\n";
}

void show(Context& context, const JobView& view, bool watch) {
  Console& console = context.console;
  if (console.json()) return console.raw(to_json(view));
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

}  // namespace

Status run_status(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const auto nodes, select_nodes(cluster, options.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  JobView view(job);
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

}  // namespace paddle::cli
