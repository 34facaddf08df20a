#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/unknown_nodes.h"
#include "cli/commands/shared_options.h"
#include "cli/console/console.h"
#include "cli/console/result_groups.h"
#include "cli/console/time_text.h"
#include "cli/job/job_claim.h"
#include "cli/job/results.h"
#include "cli/job/settings.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/process_state.h"
#include "cli/watch/view.h"

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
          job_argument(options.target),
          {"-w,--watch", "refresh every 2 seconds until the job ends", &options.watch}};
}

Cell whole(const std::optional<double>& value) {
  return value ? number_cell(*value, 0) : empty_cell();
}

// With --watch the rate, which needs two samples; otherwise the total.
Cell bytes(bool watch, const std::optional<std::uint64_t>& total,
           const std::optional<double>& per_second) {
  if (watch) return per_second ? bytes_cell(static_cast<std::uint64_t>(*per_second)) : empty_cell();
  return total ? bytes_cell(*total) : empty_cell();
}

// False before the first batch.
bool has_cost(const remote::Progress& progress) {
  return progress.has_cost && std::isfinite(progress.cost) &&
         (progress.batch > 0 || progress.cost != 0);
}

std::vector<Cell> row_of(const ProcessView& process, bool watch) {
  const auto& usage = process.status.usage;
  const auto& progress = process.progress;
  Cell state = text_cell(process.state_text());
  state.fault = hangs(process.pace.pace);
  return {
      text_cell(process.node),
      text_cell(process.status.name),
      std::move(state),
      progress ? text_cell(pass_text(progress->pass, progress->passes)) : empty_cell(),
      progress && progress->pass_done ? text_cell(share_text(*progress->pass_done)) : empty_cell(),
      progress ? number_cell(progress->batch) : empty_cell(),
      progress && has_cost(*progress) ? cost_cell(progress->cost) : empty_cell(),
      whole(process.rate()),
      usage ? bytes(watch, usage->received_bytes, process.received_per_second) : empty_cell(),
      usage ? bytes(watch, usage->sent_bytes, process.sent_per_second) : empty_cell(),
      usage ? text_cell(human_bytes(usage->resident_bytes)) : empty_cell(),
      process.cores ? number_cell(*process.cores, 1) : empty_cell(),
      process.heard_ms_ago ? text_cell(span_text(*process.heard_ms_ago)) : empty_cell(),
      is_running(process.status) ? number_cell(static_cast<std::uint64_t>(process.status.pid))
                                 : empty_cell()};
}

// "pass 2/10  41 %  5,031/s  12 min left  cost 6.1 ▂▃▅▆", for the whole job; "" before any
// progress.
std::string progress_line(const JobView& view, const ConsoleOptions& console) {
  const auto progress = view.progress();
  if (!progress) return "";
  std::string text = "pass " + pass_text(progress->pass, progress->passes);
  if (progress->pass_done) text += "  " + share_text(*progress->pass_done);
  if (progress->examples_per_second > 0) text += "  " + rate_text(progress->examples_per_second);
  if (const auto left = view.left_ms(); left && view.stalls().empty())
    text += "  " + left_text(*left);
  for (const ProcessView& process : view.processes()) {
    if (process.saved_pass) text += "  " + saved_text(process.saved_pass);
  }
  if (progress->cost && std::isfinite(*progress->cost)) {
    text += "  cost " + cost_text(*progress->cost);
    if (console.columns > 0) text += " " + view.trail().sparkline(console.utf8);
  }
  return text + "\n";
}

// The record of the run, a line for each part; "" if it is empty.
std::string record_lines(const RunRecord& record, const ConsoleOptions& console) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += wrapped(fmt::format("{}: {}", name, value), console.columns) + "\n";
  };
  add("tags", fmt::format("{}", fmt::join(record.tags, ", ")));
  add("note", record.note);
  add("git", escape_control(record.git.text()));
  return text;
}

// The table of GPU variables; "" for a job without GPUs.
std::string gpu_table(const JobView& view, const ConsoleOptions& console) {
  Table table{{{"variable", ""},
               {"value", "", 0, false, true},
               {"set by", "", 1},
               {"trainers", "", 2, false, true}},
              {}};
  for (const GpuVariable& variable : gpu_variables(view.processes())) {
    table.rows.push_back({text_cell(variable.name), text_cell(variable.value),
                          text_cell(std::string(source_text(variable.source))),
                          text_cell(fold_names(variable.trainers))});
  }
  if (table.rows.empty()) return "";
  return "\n" + to_text(table, console.columns, console.colour);
}

// Descriptions of the commands that hold a claim on the job on any of its nodes.
std::set<std::string> commands_at_work(const JobView& view) {
  std::set<std::string> lines;
  for (const ProcessView& process : view.processes()) {
    for (const remote::JobClaim& claim : process.status.claims)
      lines.insert(describe(claim, view.job()));
  }
  return lines;
}

std::string to_text(const JobView& view, const RunRecord& record, const ConsoleOptions& console,
                    bool watch) {
  Table table{{{"node", "", 0, false, true},
               {"role", ""},
               {"state", "", 0, false, true},
               {"pass", "", 1, true},
               {"done", "", 3, true},
               {"batch", "", 8, true},
               {"cost", "", 4, true},
               {"examples/s", "", 2, true},
               {watch ? "in/s" : "received", "", 6, true},
               {watch ? "out/s" : "sent", "", 6, true},
               {"memory", "", 7, true},
               {"cores", "", 9, true},
               {"last report", "", 5, true},
               {"pid", "", 10, true}},
              {}};
  for (const ProcessView& process : view.processes()) table.rows.push_back(row_of(process, watch));
  std::string text = progress_line(view, console) + record_lines(record, console) +
                     to_text(table, console.columns, console.colour);
  if (view.broken_start())
    text +=
        wrapped(escape_lines(describe(*view.broken_start(), view.job())), console.columns) + "\n";
  if (view.loss()) text += wrapped(escape_lines(view.loss()->message), console.columns) + "\n";
  for (const std::string& line : commands_at_work(view))
    text += wrapped(escape_lines(line), console.columns) + "\n";
  if (view.diverged_to())
    text += wrapped("warning: " + divergence_text(*view.diverged_to()), console.columns) + "\n";
  for (const ProcessView& process : view.processes()) {
    for (const std::string& failure : {describe_rollback(process.status, process.node),
                                       describe_save_failure(process.status, process.node)}) {
      if (failure.empty()) continue;
      text += wrapped("warning: " + escape_lines(failure), console.columns) + "\n";
    }
  }
  for (const std::string& line : view.stalls())
    text += wrapped(escape_lines(line), console.columns) + "\n";
  for (const SlowTrainer& slow : slow_trainers(view.processes())) {
    text += wrapped(escape_lines(describe(slow)), console.columns) + "\n";
  }
  return text + gpu_table(view, console);
}

std::string_view activity_name(Pace pace) {
  switch (pace) {
    case Pace::kStarting:
      return "starting";
    case Pace::kTesting:
      return "testing";
    case Pace::kSaving:
      return "saving";
    case Pace::kWaiting:
      return "waiting";
    case Pace::kSuspect:
      return "suspect";
    case Pace::kStalled:
      return "stalled";
    case Pace::kUnknown:
    case Pace::kRunning:
      break;
  }
  return "running";
}

Json to_json(const std::vector<remote::Restart>& restarts) {
  std::vector<Json> list;
  for (const remote::Restart& restart : restarts) {
    list.push_back(
        Json::object({{"ended_unix_ms", restart.ended_unix_ms},
                      {"exit_code", restart.signal == 0 ? Json(restart.exit_code) : Json()},
                      {"signal", restart.signal != 0 ? Json(restart.signal) : Json()},
                      {"failures", restart.failures}}));
  }
  return Json::list(list);
}

Json to_json(const ProcessView& process) {
  const remote::ProcessStatus& status = process.status;
  const auto& usage = status.usage;
  const auto& progress = process.progress;
  return Json::object(
      {{"node", process.node},
       {"role", status.name},
       {"state", describe_state(status)},
       {"activity", is_running(status) ? Json(activity_name(process.pace.pace)) : Json()},
       {"silent_ms", status.progress && is_running(status) ? Json(process.pace.silent_ms) : Json()},
       {"waits_for", Json::list({process.pace.waits_for.begin(), process.pace.waits_for.end()})},
       {"missed_by", Json::list({process.pace.missed_by.begin(), process.pace.missed_by.end()})},
       {"notice_age_ms",
        status.notice_age_ms && is_running(status) ? Json(process.pace.notice_age_ms) : Json()},
       {"pid", is_running(process.status) ? Json(status.pid) : Json()},
       {"pass", progress ? Json(progress->pass) : Json()},
       {"passes", progress && progress->passes > 0 ? Json(progress->passes) : Json()},
       {"pass_done", progress && progress->pass_done ? Json::number(*progress->pass_done) : Json()},
       {"batch", progress ? Json(progress->batch) : Json()},
       {"cost", progress && has_cost(*progress) ? Json::number(progress->cost) : Json()},
       {"examples_per_second", whole(process.rate()).json},
       {"received_bytes", usage ? Json(usage->received_bytes) : Json()},
       {"sent_bytes", usage ? Json(usage->sent_bytes) : Json()},
       {"received_per_second", whole(process.received_per_second).json},
       {"sent_per_second", whole(process.sent_per_second).json},
       {"resident_bytes", usage ? Json(usage->resident_bytes) : Json()},
       {"cpu_ms", usage ? Json(usage->cpu_ms) : Json()},
       {"save_failure", status.progress && !status.progress->save_failure.empty()
                            ? Json(status.progress->save_failure)
                            : Json()},
       {"restored_from", status.progress && !status.progress->restored_from.empty()
                             ? Json(status.progress->restored_from)
                             : Json()},
       {"heard_ms_ago", process.heard_ms_ago},
       {"hang", status.hang.empty() ? Json() : Json(status.hang)},
       {"restarts", to_json(status.restarts)},
       {"started_unix_ms", status.started_unix_ms},
       {"ended_unix_ms", status.ended_unix_ms > 0 ? Json(status.ended_unix_ms) : Json()}});
}

Json progress_json(const JobView& view) {
  const auto progress = view.progress();
  if (!progress) return {};
  return Json::object(
      {{"pass", progress->pass},
       {"passes", progress->passes > 0 ? Json(progress->passes) : Json()},
       {"pass_done", progress->pass_done ? Json::number(*progress->pass_done) : Json()},
       {"examples_per_second", Json::fixed(progress->examples_per_second, 0)},
       {"cost", progress->cost ? Json::number(*progress->cost) : Json()},
       {"left_ms", view.left_ms()}});
}

Json gpu_json(const JobView& view) {
  std::vector<Json> list;
  for (const GpuVariable& variable : gpu_variables(view.processes())) {
    list.push_back(Json::object(
        {{"name", variable.name},
         {"value", variable.value},
         {"set_by", source_text(variable.source)},
         {"trainers", Json::list({variable.trainers.begin(), variable.trainers.end()})}}));
  }
  return Json::list(list);
}

// Why the job failed, with the last lines of the log; "" if no process failed first on its own.
std::string cause_of(ClusterSession& session, const JobView& view) {
  const bool may_have_failed =
      std::ranges::any_of(view.processes(), [](const ProcessView& process) {
        return !is_running(process.status) && !ended_well(process.status);
      });
  if (!may_have_failed) return "";
  const auto processes = session.processes(view.job());
  const ProcessOnNode* const first = first_failure(processes);
  return first == nullptr || is_consequence(first) ? "" : failure_error(session, *first).message;
}

// The record of the run, as the node of trainer 0 has it.
RunRecord record_of(ClusterSession& session, const JobView& view) {
  for (const ProcessView& process : view.processes()) {
    if (process.status.name != "trainer-0") continue;
    const auto member = std::ranges::find(session.members(), process.node,
                                          [](const Member& one) { return one.spec.name; });
    if (member == session.members().end() || !member->client) break;
    return record_on_node(*member->client, view.job());
  }
  return {};
}

Json cost_json(const std::optional<ClusterCost>& cost) {
  if (!cost) return {};
  return Json::object({{"total", Json::fixed(cost->total, 2)},
                       {"per_hour", Json::fixed(cost->hourly, 2)},
                       {"currency", cost->currency}});
}

Json to_json(const JobView& view, const RunRecord& record, const ClusterSpec& cluster,
             const std::string& cause, const std::optional<ClusterCost>& cost,
             std::optional<std::int64_t> nodes_left_ms) {
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
  const std::vector<std::string> stalls = view.stalls();
  const std::set<std::string> at_work = commands_at_work(view);
  std::vector<std::string> missing, lost;
  if (const auto& broken = view.broken_start())
    (broken->has_trained ? lost : missing) = broken->missing;
  if (view.loss()) lost = view.missing();
  Json::Fields fields{{"job", view.job()},
                      {"progress", progress_json(view)},
                      {"processes", Json::list(processes)},
                      {"diverged", view.diverged_to().has_value()},
                      {"never_started", Json::list({missing.begin(), missing.end()})},
                      {"lost", Json::list({lost.begin(), lost.end()})},
                      {"stalls", Json::list({stalls.begin(), stalls.end()})},
                      {"at_work", Json::list({at_work.begin(), at_work.end()})},
                      {"slow", Json::list(slow)},
                      {"gpu_variables", gpu_json(view)},
                      {"failure", cause.empty() ? Json() : Json(cause)},
                      {"cluster", Json::object({{"name", cluster.name}, {"file", cluster.file}})},
                      {"cost", cost_json(cost)},
                      {"nodes_left_ms", nodes_left_ms}};
  add_json(record, fields);
  return Json::object(fields);
}

void show(Context& context, const ClusterSpec& cluster, const JobView& view,
          const RunRecord& record, const std::string& cause, bool watch) {
  Console& console = context.console;
  const auto cost = cost_of(cluster, context.unix_seconds());
  if (console.json())
    return console.json_line(to_json(view, record, cluster, cause, cost, context.nodes_left_ms()));
  std::string text = to_text(view, record, console.options(), watch);
  if (!cause.empty()) text += "\n" + escape_lines(cause) + "\n";
  if (!watch) {
    console.note(fmt::format("job {} on cluster '{}' ({})", view.job(), cluster.name,
                             shown_path(context, cluster.file)));
    if (cost) console.note(cost_text(cluster, *cost));
    if (const auto left = context.nodes_left_ms())
      console.note(time_limit_text(*left, view.left_ms()));
    if (const std::string others = nodes_not_running(cluster); !others.empty())
      console.note("warning: " + others);
    return console.raw(text);
  }
  console.repaint(fmt::format("job {} on {}  {} UTC{}\n", escape_lines(view.job()), cluster.name,
                              utc_text(context.unix_seconds() * 1000),
                              console.repaints() ? "  (Ctrl-C ends this view)" : "") +
                  text);
}

Status run_status(Context& context, const StatusOptions& options) {
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kAllowedIfLeftOut));
  ClusterSession& session = found.session;
  JobView view(found.name);
  if (options.watch && context.console.repaints()) context.console.raw("\x1b[2J");
  for (;;) {
    view.look(context, session);
    show(context, found.cluster, view, record_of(session, view), cause_of(session, view),
         options.watch);
    if (!options.watch || context.console.closed()) break;
    if (!view.any_running() && session.unreachable() == 0) break;
    context.pause(kWatchPeriod);
    if (context.interrupted()) return {};
    session.reconnect(context);
  }
  PADDLE_TRY_STATUS(session.all_well());
  if (!view.loss() || !view.any_running()) return {};
  return with_unknown_nodes(context, session, found.cluster, *view.loss());
}

}  // namespace

Command status_command() {
  return {"status", "show a job's processes: progress, resources, and which are slow or stalled",
          "  paddlectl status\n"
          "  paddlectl status --watch\n"
          "  paddlectl status --json",
          [] { return invocation(list_options, run_status); }};
}

}  // namespace paddle::cli
