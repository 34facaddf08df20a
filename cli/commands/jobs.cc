#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/cluster/unknown_nodes.h"
#include "cli/commands/shared_options.h"
#include "cli/console/time_text.h"
#include "cli/job/folders.h"
#include "cli/job/passes.h"
#include "cli/job/settings.h"
#include "cli/watch/job_state.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"
#include "cli/watch/progress.h"
#include "engine/config/toml_reader.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kJobFileBytesMax = 256U << 10U;

// A job as seen on the reachable nodes.
struct JobSummary {
  std::vector<ProcessOnNode> processes;
  std::set<std::string> nodes;  // nodes with its processes or files
  std::size_t trainers = 0, pservers = 0;
  std::optional<std::int64_t> age_ms;  // since its first process started, by that node's clock
  std::uint64_t run = 0;               // the run of trainer 0; the figures below are from it
  std::optional<std::uint64_t> pass, passes;
  std::optional<double> cost, best_cost;  // newest of trainer 0, lowest held-out
  // The name of the figure that ranks the passes: [train] best, or else the cost, or else the first
  // evaluator of the tests.
  std::string figure;
  std::optional<double> best;
  std::uint64_t bytes = 0;
  std::string state;
  std::vector<std::string> stalled;  // processes
  RunRecord record;                  // as the node of trainer 0 has it
};
using Jobs = std::map<std::string, JobSummary>;

void take_test(const MetricsLine& test, JobSummary& job) {
  if (test.cost) job.best_cost = std::min(*test.cost, job.best_cost.value_or(*test.cost));
  if (job.figure.empty()) {
    const auto evaluators = test.evaluators();
    job.figure = test.cost || evaluators.empty() ? "cost" : evaluators.front().first;
  }
  const auto value = job.figure == "cost" ? test.cost : test.number(job.figure);
  if (!value) return;
  const bool is_better = !job.best || (test.is_better_when_higher(job.figure) ? *value > *job.best
                                                                              : *value < *job.best);
  if (is_better) job.best = value;
}

void take_metrics(const std::vector<MetricsLine>& lines, JobSummary& job) {
  for (const MetricsLine& line : lines) {
    if (line.kind == "test") take_test(line, job);
    if (line.kind != "train" && line.kind != "pass") continue;
    job.pass = line.pass;
    job.cost = line.kind == "pass" ? of_whole_job(line).cost : line.cost;
  }
  if (const std::uint32_t passes = passes_of(lines); passes > 0) job.passes = passes;
}

// Keys of the job's own job.toml. Only the engine uses these keys; a user's own program ignores
// them.
struct TrainKeys {
  std::optional<std::uint64_t> passes;
  std::string best;
};
TrainKeys keys_of(remote::AgentClient& client, const std::string& job) {
  const auto text = client.read_file(workspace_folder(job) + "/job.toml", 0, kJobFileBytesMax);
  if (!text) return {};
  auto table = config::TomlTable::parse(text->data, "job.toml");
  if (!table) return {};
  config::TomlTable train = table->table("train");
  return {static_cast<std::uint64_t>(train.integer("passes", 1)), train.string("best")};
}

// Collects everything that one node knows, in one visit.
Status look_at(Member& member, std::size_t index, Jobs& jobs) {
  PADDLE_TRY(const remote::NodeStatus status, member.client->status(""));
  for (const remote::ProcessStatus& process : status.processes) {
    JobSummary& job = jobs[process.job];
    job.processes.push_back({index, process});
    job.nodes.insert(member.spec.name);
    const std::int64_t age = status.node.unix_ms - process.started_unix_ms;
    job.age_ms = std::max(age, job.age_ms.value_or(age));
    if (process.name != "trainer-0") continue;
    job.run = process.run;
    const TrainKeys keys = process.reports ? keys_of(*member.client, process.job) : TrainKeys();
    job.figure = keys.best;
    take_metrics(read_metrics(*member.client, metrics_path(process.log), kMetricsBytesMax), job);
    if (!job.passes) job.passes = keys.passes;
    job.record = record_on_node(*member.client, process.job);
  }
  PADDLE_TRY(const auto files, member.client->list_sizes("jobs"));
  for (const remote::FileEntry& file : files) {
    JobSummary& job = jobs[file.path.substr(0, file.path.find('/'))];
    job.bytes += file.size;
    job.nodes.insert(member.spec.name);
  }
  return {};
}

void merge(JobSummary& job, JobSummary&& part) {
  job.processes.insert(job.processes.end(), part.processes.begin(), part.processes.end());
  job.nodes.merge(part.nodes);
  job.bytes += part.bytes;
  if (part.age_ms) job.age_ms = std::max(*part.age_ms, job.age_ms.value_or(*part.age_ms));
  const bool has_trainer_0 =
      std::ranges::any_of(part.processes, [](auto& p) { return p.status.name == "trainer-0"; });
  if (!has_trainer_0 || part.run < job.run) return;
  job.run = part.run;
  job.pass = part.pass;
  job.passes = part.passes;
  job.cost = part.cost;
  job.best_cost = part.best_cost;
  job.figure = part.figure;
  job.best = part.best;
  job.record = std::move(part.record);
}

Cell best_cell(const JobSummary& job) {
  if (!job.best) return empty_cell();
  return job.figure == "cost" ? cost_cell(*job.best)
                              : text_cell(fmt::format("{} {:.5g}", job.figure, *job.best));
}

Cell tags_cell(const RunRecord& record) {
  return text_cell(fmt::format("{}", fmt::join(record.tags, ", ")));
}

void show(Context& context, const std::vector<std::pair<std::string, JobSummary>>& jobs) {
  if (context.console.json()) {
    std::vector<Json> list;
    list.reserve(jobs.size());
    for (const auto& [name, job] : jobs) {
      Json::Fields one{
          {"job", name},
          {"state", job.state},
          {"age_seconds", job.age_ms ? Json(*job.age_ms / 1000) : Json()},
          {"trainers", job.trainers},
          {"pservers", job.pservers},
          {"pass", job.pass},
          {"passes", job.passes},
          {"cost", job.cost ? Json::number(*job.cost) : Json()},
          {"best_held_out_cost", job.best_cost ? Json::number(*job.best_cost) : Json()},
          {"best_held_out",
           job.best ? Json::object({{"figure", job.figure}, {"value", Json::number(*job.best)}})
                    : Json()},
          {"bytes", job.bytes},
          {"stalled", Json::list({job.stalled.begin(), job.stalled.end()})},
          {"nodes", Json::list({job.nodes.begin(), job.nodes.end()})}};
      add_json(job.record, one);
      list.push_back(Json::object(one));
    }
    return context.console.json_line(Json::list(list));
  }
  Table table{{{"job", "", 0, false, true},
               {"state", "", 0, false, true},
               {"age", "", 3, true},
               {"trainers x pservers", "", 5, true},
               {"pass", "", 1, true},
               {"cost", "", 4, true},
               {"best held-out", "", 2, true},
               {"on nodes", "", 6, true}},
              {}};
  const auto any_has = [&](const auto& member) {
    return std::ranges::any_of(
        jobs, [&](const auto& job) { return !(job.second.record.*member).empty(); });
  };
  const bool has_tags = any_has(&RunRecord::tags), has_notes = any_has(&RunRecord::note);
  if (has_tags) table.columns.push_back({"tags", "", 7, false, true});
  if (has_notes) table.columns.push_back({"note", "", 8, false, true});
  const auto cost = [](const std::optional<double>& value) {
    return value ? cost_cell(*value) : empty_cell();
  };
  for (const auto& [name, job] : jobs) {
    std::string pass = job.pass ? fmt::format("{}", *job.pass + 1) : "-";
    if (job.pass && job.passes) pass += fmt::format(" of {}", *job.passes);
    Cell state = text_cell(job.state);
    if (!job.stalled.empty()) {
      const std::size_t more = job.stalled.size() - 1;
      state = text_cell(fmt::format("stalled: {}{}", job.stalled.front(),
                                    more > 0 ? fmt::format(" and {} more", more) : ""));
      state.fault = true;
    }
    table.rows.push_back({text_cell(name), std::move(state),
                          job.age_ms ? text_cell(span_text(*job.age_ms)) : empty_cell(),
                          text_cell(fmt::format("{} x {}", job.trainers, job.pservers)),
                          text_cell(pass), cost(job.cost), best_cell(job), bytes_cell(job.bytes)});
    if (has_tags) table.rows.back().push_back(tags_cell(job.record));
    if (has_notes) table.rows.back().push_back(text_cell(job.record.note));
  }
  context.console.table(table);
}

// Names running jobs of which no node has some processes, and nodes that are not in the cluster
// file.
Status check_complete(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                      const Jobs& jobs) {
  std::string lines;
  for (const auto& [name, job] : jobs) {
    if (std::ranges::none_of(job.processes, is_running, &ProcessOnNode::status)) continue;
    const auto lost = find_lost_nodes(session, name, job.processes);
    if (lost) lines += (lines.empty() ? "" : "\n") + lost->error.message;
  }
  const bool any_absent = std::ranges::any_of(session.members(), &Member::absent);
  if (lines.empty() && !any_absent) return {};
  Error error = with_unknown_nodes(context, session, cluster, {Errc::kUnreachable, lines, ""});
  if (!error.message.empty()) return error;
  if (std::ranges::all_of(session.members(), &Member::absent)) {
    context.console.note(fmt::format(
        "the nodes have no folder of cluster '{}': prepare them with paddlectl up", cluster.name));
  }
  return {};
}

struct JobsOptions : NodeTarget {
  std::vector<std::string> tags;
};

OptionList list_options(JobsOptions& options) {
  OptionList list = node_options(options);
  list.push_back(
      {"--tag", "only jobs that have this tag (repeatable: all of them)", &options.tags, "TAG"});
  return list;
}

// Leaves the jobs that have all these tags. A note names the known tags if no job is left.
void keep_tagged(Context& context, const std::vector<std::string>& tags,
                 std::vector<std::pair<std::string, JobSummary>>& jobs) {
  std::set<std::string> known;
  for (const auto& [name, job] : jobs) known.insert(job.record.tags.begin(), job.record.tags.end());
  std::erase_if(jobs, [&](const auto& job) {
    return !std::ranges::all_of(
        tags, [&](const std::string& tag) { return job.second.record.has_tag(tag); });
  });
  if (tags.empty() || !jobs.empty()) return;
  context.console.note(fmt::format(
      "no job has the tag {}; {}", fmt::join(tags, " and "),
      known.empty() ? "train --tag gives tags" : fmt::format("tags: {}", fmt::join(known, ", "))));
}

Status run_jobs(Context& context, const JobsOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  const std::size_t left_out = leave_out_as_up_did(context, session, cluster, options).size();
  const std::size_t asked = session.members().size();
  std::vector<Jobs> found(asked);
  (void)session.each([&](Member& member) {
    const std::size_t index = session.index_of(member);
    return look_at(member, index, found[index]);
  });
  Jobs all;
  for (Jobs& part : found) {
    for (auto& [name, job] : part) merge(all[name], std::move(job));
  }
  Status reached = session.all_well();
  const UnseenNodes unseen{.any = !reached || asked < cluster.nodes.size(),
                           .only_left_out = reached && asked + left_out == cluster.nodes.size()};
  for (auto& [name, job] : all) {
    leave_out_former_runs(job.processes);
    const JobSize size = size_of_job(job.processes);
    job.trainers = size.trainers;
    job.pservers = size.pservers;
    job.state = job_state(job.processes, unseen, size.all_seen);
    job.stalled = stalled_processes(job.processes);
  }
  std::vector<std::pair<std::string, JobSummary>> jobs(all.begin(), all.end());
  std::ranges::stable_sort(jobs, std::ranges::greater(), [](const auto& job) {
    return job.second.age_ms.value_or(INT64_MAX);  // the newest last
  });
  keep_tagged(context, options.tags, jobs);
  show(context, jobs);
  if (reached && asked == cluster.nodes.size())
    PADDLE_TRY_STATUS(check_complete(context, session, cluster, all));
  if (reached) return {};
  Error error = std::move(reached).error();
  error.message = "jobs and files on these nodes are not in the list:\n" + error.message;
  return error;
}

}  // namespace

Command jobs_command() {
  return {"jobs", "list the jobs on the cluster's nodes: state, age, progress, size on disk",
          "  paddlectl jobs\n"
          "  paddlectl jobs --tag lr-test\n"
          "  paddlectl jobs --json",
          [] { return invocation(list_options, run_jobs); }};
}

}  // namespace paddle::cli
