// plan and train: places a job, starts it, and follows it to its end.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/cluster/placement.h"
#include "cli/cluster/selection.h"
#include "cli/commands/command.h"
#include "cli/commands/following.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/training.h"
#include "cli/job/check.h"
#include "cli/job/end_of_job.h"
#include "cli/job/engines.h"
#include "cli/job/folders.h"
#include "cli/job/job_claim.h"
#include "cli/job/notify.h"
#include "cli/job/plan.h"
#include "cli/job/prepared_data.h"
#include "cli/job/resume.h"
#include "cli/job/settings.h"
#include "cli/job/setup.h"
#include "cli/job/start.h"
#include "cli/job/statistics.h"
#include "cli/job/trainer_environment.h"
#include "cli/job/warm_start.h"
#include "cli/report/record.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"
#include "engine/config/job_config.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

OptionList plan_options(PlanOptions& options) {
  return {
      cluster_option(options.target.cluster),
      on_option(options.target.on),
      workspace_argument(options.source.workspace),
      {"--trainers",
       "number of trainers; default: one on each node with the role, or its `capacity`",
       &options.trainers, "", 1, kProcessesMax},
      {"--pservers",
       "number of parameter servers (default: one on each node with the role pserver; for a "
       "program of your own without [[table]] none); 0 is for dense = \"collective\" or "
       "\"local_sgd\"",
       &options.pservers, "", 0, kProcessesMax},
      {"--gpus",
       "a trainer for each GPU: all, a number of them on each node, or a list of nvidia-smi's "
       "numbers or UUIDs, 0,2",
       &options.gpus, "GPUS"},
      overrides_option(options.source.overrides),
  };
}

struct JobNodes {
  ClusterSpec cluster;  // with roles on the chosen nodes only
  std::vector<std::size_t> chosen;
};
Result<JobNodes> nodes_of_job(Context& context, const NodeTarget& target) {
  PADDLE_TRY(ClusterSpec cluster, choose_cluster(context.directory, target.cluster));
  PADDLE_TRY(std::vector<std::size_t> chosen, choose_nodes(context, cluster, target.on));
  return JobNodes{with_roles_on(std::move(cluster), chosen), std::move(chosen)};
}

// A user's own program without tables has pservers only if the command line asks for them.
std::optional<std::uint32_t> pservers_of(const PlanOptions& options, const config::JobConfig& job) {
  if (options.pservers) return options.pservers;
  const bool needs_them = job.command.empty() || !job.tables.empty();
  return needs_them ? std::nullopt : std::optional(0U);
}

std::size_t nodes_with_a_role(const ClusterSpec& cluster) {
  return static_cast<std::size_t>(std::ranges::count_if(cluster.nodes, [](const ClusterNode& node) {
    return node.runs_pserver || node.runs_trainer;
  }));
}

// Adds to `loads` the number of running processes on each of these nodes. A node that cannot be
// reached counts as idle; starting the job reports its error.
void count_processes(Context& context, const ClusterSpec& cluster,
                     const std::vector<std::size_t>& nodes, NodeLoads& loads) {
  for (const std::size_t node : nodes) loads[node] = 0;
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  for (const ProcessOnNode& process : session.processes("")) {
    if (is_running(process.status)) ++loads[session.members()[process.member].node];
  }
}

// place_job(), but it asks the nodes of the placement what they run, and chooses other nodes if
// they are busy. A job that uses all nodes asks none. A note names the busy nodes.
Result<Placement> place_on_idle_nodes(Context& context, const ClusterSpec& cluster,
                                      std::uint32_t trainers,
                                      std::optional<std::uint32_t> pservers) {
  PADDLE_TRY(const Placement first, place_job(cluster, trainers, pservers));
  if (first.nodes.size() >= nodes_with_a_role(cluster)) return first;
  Placement placement = first;
  NodeLoads loads;
  for (;;) {
    std::vector<std::size_t> unknown;
    std::ranges::copy_if(placement.nodes, std::back_inserter(unknown),
                         [&](std::size_t node) { return !loads.contains(node); });
    if (unknown.empty()) break;
    count_processes(context, cluster, unknown, loads);
    PADDLE_TRY(placement, place_job(cluster, trainers, pservers, loads));
  }
  std::vector<std::string> busy;
  for (const std::size_t node : first.nodes) {
    if (std::ranges::find(placement.nodes, node) == placement.nodes.end())
      busy.push_back(cluster.nodes[node].spec.name);
  }
  if (!busy.empty()) {
    context.console.note(fmt::format("{} {} another job: idle nodes are used first",
                                     fmt::join(busy, ", "), busy.size() == 1 ? "runs" : "run"));
  }
  return placement;
}

// is_planned: asks no node, so `train` may choose other nodes if these are busy.
Result<Placement> place(Context& context, const ClusterSpec& cluster, const PlanOptions& options,
                        const config::JobConfig& job,
                        const std::map<std::string, std::string>& environment, bool is_planned) {
  const std::optional<std::uint32_t> pservers = pservers_of(options, job);
  if (options.gpus.empty()) {
    return is_planned ? place_job(cluster, options.trainers, pservers)
                      : place_on_idle_nodes(context, cluster, options.trainers, pservers);
  }
  PADDLE_TRY(const GpuChoice choice, parse_gpus(options.gpus));
  PADDLE_TRY(std::vector<NodeGpus> gpus, find_gpus(context, cluster, environment, choice));
  return place_on_gpus(cluster, std::move(gpus), options.trainers, pservers);
}

void note_missing_copies(Context& context, const ClusterSpec& cluster, const Placement& placement,
                         const Workspace& workspace) {
  if (workspace.snapshot_copies < 2 || copying_trainer(placement)) return;
  context.console.note(fmt::format(
      "train.snapshot_copies = {}, but {} on node {}: no second node can keep copies, and "
      "snapshots are lost with that node; give another node the role trainer, or raise --trainers",
      workspace.snapshot_copies,
      placement.trainers.size() == 1 ? "the only trainer is" : "all trainers are",
      cluster.nodes[placement.trainers.front()].spec.name));
}

Status print_plan(Context& context, const JobSource& source, const ClusterSpec& cluster,
                  const Placement& placement, const Workspace& workspace) {
  PADDLE_TRY(const std::string text,
             describe_placement(context, source, cluster, placement, workspace));
  note_missing_copies(context, cluster, placement, workspace);
  context.console.raw(text);
  return {};
}

Status run_plan(Context& context, const PlanOptions& options) {
  PADDLE_TRY(const JobNodes nodes, nodes_of_job(context, options.target));
  PADDLE_TRY(const config::ResolvedJob job, resolve_job(context, options.source));
  PADDLE_TRY(const Placement placement,
             place(context, nodes.cluster, options, job.config, {}, true));
  PADDLE_TRY(const Workspace workspace, check_job(context, options.source, job, placement));
  return print_plan(context, options.source, nodes.cluster, placement, workspace);
}

constexpr std::size_t kWorkspaceNameBytesMax = 80;  // in a job's name, which also contains the time
constexpr std::size_t kProgramShownMax = 1000;      // characters of a program in an error
constexpr std::size_t kNamesShownMax = 10;          // variables in an error
constexpr std::uint32_t kRestartsMax = 1000;
constexpr std::uint32_t kStallSecondsMax = 24 * 60 * 60;
// A teardown removes a node's folder within about this time after it has ended the agents there.
constexpr Duration kTeardownOfANode = std::chrono::seconds(2);
constexpr Duration kLookForTeardownPeriod = std::chrono::milliseconds(200);
constexpr Duration kNodesLookPeriod = std::chrono::seconds(1);
// A wait for nodes is printed after this time, and again each time it has doubled.
constexpr Duration kFirstWaitNote = std::chrono::seconds(20);

// "<workspace>-20260101-120000", in UTC, with '-' in place of characters that a job's name may not
// contain.
std::string default_job_name(std::string workspace, std::int64_t unix_seconds) {
  for (char& c : workspace) {
    if (!check_job_name(std::string("x") + c)) c = '-';
  }
  workspace.erase(0, workspace.find_first_not_of(".-"));
  if (workspace.empty()) workspace = "job";
  workspace.resize(std::min(workspace.size(), kWorkspaceNameBytesMax));
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{}-{:04}{:02}{:02}-{:02}{:02}{:02}", workspace, parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// Checks that results can be written, before the hours of training.
Status check_output(const Context& context, const std::string& folder, const std::string& job) {
  constexpr const char* kHint = "choose another --output";
  PADDLE_TRY_STATUS(check_output_folder(context, folder, job, kHint));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (!error) return {};
  return Error{Errc::kResource,
               fmt::format("cannot write results to {}: {}", folder, error.message()), kHint};
}

// `unset`: if not null, receives the names of "--env KEY" that are not set here; they are then no
// error.
Result<std::map<std::string, std::string>> read_environment(const Context& context,
                                                            const TrainOptions& options,
                                                            std::vector<std::string>* unset) {
  std::vector<std::string> items = options.environment;
  if (unset != nullptr) {
    std::erase_if(items, [&](const std::string& item) {
      const bool is_unset =
          item.find('=') == std::string::npos && ::getenv(item.c_str()) == nullptr;
      if (is_unset) unset->push_back(item);
      return is_unset;
    });
  }
  PADDLE_TRY(auto variables, parse_environment(items));
  if (options.environment_file.empty()) return variables;
  const auto file = std::filesystem::path(context.directory) / options.environment_file;
  PADDLE_TRY(auto of_file, read_environment_file(file.string()));
  variables.merge(of_file);  // the values of --env take precedence
  return variables;
}

// Prints a detached job; scripts read only the job's name.
Status say_detached(Context& context, const std::string& job) {
  if (context.console.json()) {
    context.console.json_line(Json::object({{"job", job}, {"state", "running"}}));
    return {};
  }
  context.console.result(job);
  context.console.note(fmt::format(
      "it keeps running; follow it with `paddlectl attach {}`, which also fetches the results",
      job));
  return {};
}

// Adds a hint to the error for a name that another job has: how to continue or follow that job.
Error name_taken(const Context& context, ClusterSession& session, const std::string& name,
                 const std::string& output, Error error) {
  const auto processes = session.processes(name);
  if (processes.empty()) return error;
  const bool runs = std::ranges::any_of(processes, is_running, &ProcessOnNode::status);
  if (runs) {
    error.hint = fmt::format("follow it: paddlectl attach {}; or choose another --name", name);
    return error;
  }
  error.hint = next_step(context, session, name, output, "continue it");
  if (error.hint.find("paddlectl rm ") == std::string::npos)
    error.hint += fmt::format("; or remove it: paddlectl rm {}", name);
  error.hint += "; or choose another --name";
  return error;
}

// claim_new_name(). A name that the user asked for (`asked` is not "") is also free if only a
// broken start used it.
Result<std::string> claim_fresh(Context& context, ClusterSession& session,
                                const ClusterSpec& cluster, const std::string& asked,
                                const std::string& name, const std::string& output) {
  auto claimed = claim_new_name(context, session, name, !asked.empty());
  if (claimed || asked.empty() || claimed.error().code != Errc::kUsage) return claimed;
  PADDLE_TRY(const bool is_free, forget_broken_start(context, cluster, name));
  if (is_free) return claim_new_name(context, session, name, true);
  return name_taken(context, session, name, output, std::move(claimed).error());
}

JobRequest request_of(const TrainOptions& options, const JobEngines& engines,
                      const config::ResolvedJob& job) {
  JobRequest request;
  request.job = options.job;
  request.engine = engines.engine.remote_path;
  if (engines.gpu_engine) request.gpu_engine = engines.gpu_engine->remote_path;
  request.job_toml = job.text;
  request.resume = options.resume;
  request.restarts = options.restarts.value_or(0);
  request.stall_restarts_after =
      options.stall_restarts_after.value_or(request.stall_restarts_after);
  return request;
}

bool is_workspace(const std::string& folder) {
  std::error_code ignored;
  return !folder.empty() && std::filesystem::is_regular_file(folder + "/job.toml", ignored);
}

// Takes what the command line leaves open from the job's last run.
void take_settings(const PreviousRun& previous, TrainOptions& options) {
  PlanOptions& plan = options.plan;
  options.job = previous.job;
  const JobSettings before = previous.settings.value_or(JobSettings());
  if (options.tags.empty()) options.tags = before.record.tags;
  if (options.note.empty()) options.note = before.record.note;
  if (plan.gpus.empty()) plan.gpus = before.gpus;
  if (plan.target.on.empty()) plan.target.on = before.on;
  if (plan.source.workspace.empty() && is_workspace(before.workspace))
    plan.source.workspace = before.workspace;
  plan.source.overrides = merged_overrides(before.overrides, plan.source.overrides);
  if (!options.restarts && before.restarts > 0) options.restarts = before.restarts;
  if (!options.stall_restarts_after && options.restarts.value_or(0) > 0)
    options.stall_restarts_after = before.stall_restarts_after;
  if (plan.trainers == 0)
    plan.trainers = previous.trainers > 0 ? previous.trainers : before.trainers;
  if (!plan.pservers) plan.pservers = previous.pservers;
  if (!plan.pservers && before.trainers > 0) plan.pservers = before.pservers;
}

Error no_such_job(const Context& context, const std::string& job, const std::string& output) {
  return {Errc::kUsage,
          fmt::format("job {} is not on the nodes and not in {}", job, shown_path(context, output)),
          "list the jobs: paddlectl jobs; or start this one without --resume"};
}

// kUsage if the job is not known, or if the command line names no workspace and the last run's
// workspace was moved, was removed or is not known here.
Status check_last_workspace(const Context& context, const PreviousRun& previous,
                            const std::string& output, const TrainOptions& options) {
  if (!options.plan.source.workspace.empty() || is_workspace(context.directory)) return {};
  const bool is_known = previous.settings || previous.trainers > 0;
  std::error_code ignored;
  if (!is_known && !std::filesystem::exists(output + "/" + options.job, ignored))
    return no_such_job(context, options.job, output);
  const std::string last = previous.settings.value_or(JobSettings()).workspace;
  return Error{Errc::kUsage,
               last.empty() ? "no job.toml in " + context.directory
                            : fmt::format("no job.toml in {}, the workspace of the last run of {}",
                                          last, options.job),
               fmt::format("name the folder where it is now: paddlectl train --resume --name {} "
                           "<workspace>",
                           options.job)};
}

// kUsage: a program is named by --set of the last run, but neither by the settings that are kept
// here nor by `typed`. A node that was taken over may have named it, and it would run on all nodes.
Status check_programs(const PreviousRun& previous, const std::vector<std::string>& typed,
                      const std::vector<std::string>& all) {
  const JobSettings here = previous.settings_here.value_or(JobSettings());
  const std::vector<std::string> trusted = merged_overrides(here.overrides, typed);
  const std::set<std::string> programs = new_programs(trusted, all);
  if (programs.empty()) return {};
  std::vector<std::string> ways;
  for (const std::string& one : all) {
    if (new_programs(trusted, {one}).empty()) continue;
    ways.push_back("--set " + (one.size() <= kProgramShownMax ? shell_word(one) : "KEY=..."));
  }
  return Error{Errc::kUsage,
               fmt::format("only the nodes of job {} have the program of {}", previous.job,
                           fmt::join(programs, " and ")),
               fmt::format("if it is to run, type it: {}", fmt::join(ways, " "))};
}

// kUsage: only the nodes have these names of --env. Values with such names could load a program, or
// be secrets of this machine.
Status check_names(const PreviousRun& previous, const std::set<std::string>& trusted) {
  std::set<std::string> names;
  for (const auto& [name, variable] : previous.variables) names.insert(name);
  if (previous.settings)
    names.insert(previous.settings->variables.begin(), previous.settings->variables.end());
  std::erase_if(names, [&](const std::string& name) { return trusted.contains(name); });
  if (names.empty()) return {};
  std::vector<std::string> shown, ways;
  for (const std::string& name : names) {
    if (shown.size() == kNamesShownMax) break;
    shown.push_back(name);
    ways.push_back("--env " + shell_word(name));
  }
  return Error{Errc::kUsage,
               fmt::format("only the nodes of job {} have these variables: {}{}", previous.job,
                           fmt::join(shown, ", "), names.size() > shown.size() ? ", ..." : ""),
               fmt::format("type each: {}; NAME=VALUE replaces the value of the nodes",
                           fmt::join(ways, " "))};
}

// Adds the variables of the job's last run whose names are kept here or `unset`, which is typed.
// Their values are on its nodes, or in this environment.
Status take_variables(const PreviousRun& previous, const std::vector<std::string>& unset,
                      std::map<std::string, std::string>& environment) {
  const JobSettings here = previous.settings_here.value_or(JobSettings());
  std::set<std::string> wanted(unset.begin(), unset.end());
  wanted.insert(here.variables.begin(), here.variables.end());
  std::set<std::string> trusted = wanted;
  for (const auto& [name, value] : environment) trusted.insert(name);
  PADDLE_TRY_STATUS(check_names(previous, trusted));
  std::vector<std::string> absent;
  for (const std::string& name : wanted) {
    if (environment.contains(name)) continue;
    const auto found = previous.variables.find(name);
    if (found == previous.variables.end()) {
      absent.push_back(name);
      continue;
    }
    const NodeVariable& variable = found->second;
    if (!variable.other.empty()) {
      return Error{Errc::kUsage,
                   fmt::format("nodes {} and {} disagree on the value of --env {}", variable.node,
                               variable.other, name),
                   fmt::format("type it: --env {}=VALUE", name)};
    }
    environment.emplace(name, variable.value);
  }
  PADDLE_TRY(auto own, parse_environment(absent));
  environment.merge(own);
  return {};
}

JobSettings settings_of(const Context& context, const TrainOptions& options,
                        const PreviousRun& previous, const config::ResolvedJob& job,
                        const Placement& placement, const Workspace& workspace,
                        const std::map<std::string, std::string>& environment) {
  JobSettings settings;
  settings.run = static_cast<std::uint64_t>(context.unix_seconds()) * 1000;
  if (previous.settings) settings.run = std::max(settings.run, previous.settings->run + 1);
  settings.workspace = workspace.path;
  settings.configuration = job.written;
  settings.overrides = options.plan.source.overrides;
  settings.trainers = static_cast<std::uint32_t>(placement.trainers.size());
  settings.pservers = static_cast<std::uint32_t>(placement.pservers.size());
  settings.gpus = options.plan.gpus;
  settings.on = options.plan.target.on;
  settings.from = options.from;
  if (settings.from.empty() && previous.settings) settings.from = previous.settings->from;
  settings.restarts = options.restarts.value_or(0);
  settings.stall_restarts_after = options.stall_restarts_after;
  for (const auto& [name, value] : environment) settings.variables.push_back(name);
  return settings;
}

// Prints what differs from the job's last run, without the values of --env.
std::vector<SettingChange> note_changes(Context& context, const PreviousRun& previous,
                                        const JobSettings& now,
                                        const std::map<std::string, std::string>& environment) {
  if (!previous.settings) return {};
  std::vector<SettingChange> changes = changes_between(*previous.settings, now);
  for (const SettingChange& change : changes)
    context.console.note("changed since the last run: " + describe(change));
  for (const auto& [name, variable] : previous.variables) {
    const auto found = environment.find(name);
    if (found != environment.end() && found->second != variable.value)
      context.console.note(
          fmt::format("changed since the last run: --env {} has another value", name));
  }
  return changes;
}

// A job about to be pushed and started.
struct JobToStart {
  JobNodes nodes;
  Placement placement;
  Workspace workspace;
  config::DataConfig data;
  JobEngines engines;
  JobRequest request;
  Destination to;
  JobSettings settings;
  SnapshotToPush snapshot;  // the snapshot to continue from
  bool is_known = false;    // an earlier run has this name, so its records are on the nodes
};

// Completes the options, the environment and the nodes with those of the job's last run.
Result<PreviousRun> take_last_run(Context& context, const std::string& output,
                                  const std::vector<std::string>& unset, TrainOptions& options,
                                  std::map<std::string, std::string>& environment,
                                  JobNodes& nodes) {
  PADDLE_TRY(PreviousRun previous, find_previous_run(context, nodes.cluster, nodes.chosen,
                                                     options.job, output, options.dry_run));
  const bool names_nodes = !options.plan.target.on.empty();
  const std::vector<std::string> typed = options.plan.source.overrides;
  take_settings(previous, options);
  PADDLE_TRY_STATUS(check_programs(previous, typed, options.plan.source.overrides));
  PADDLE_TRY_STATUS(check_last_workspace(context, previous, output, options));
  PADDLE_TRY_STATUS(take_variables(previous, unset, environment));
  auto chosen = nodes_of_job(context, options.plan.target);
  if (!chosen && names_nodes) return std::move(chosen).error();
  if (chosen) {
    nodes = *std::move(chosen);
  } else {
    context.console.note(fmt::format(
        "the cluster lacks nodes of the last run, --on {}: all nodes of the cluster are used",
        std::exchange(options.plan.target.on, "")));
  }
  return previous;
}

// Prints the plan of the job that `train` would start with these options.
Status run_dry(Context& context, TrainOptions options,
               std::map<std::string, std::string> environment,
               const std::vector<std::string>& unset) {
  PADDLE_TRY(JobNodes nodes, nodes_of_job(context, options.plan.target));
  PreviousRun previous;
  if (options.resume) {
    PADDLE_TRY(const Destination to, destination(context, options.results));
    PADDLE_TRY(previous, take_last_run(context, to.output, unset, options, environment, nodes));
    if (!previous.settings && previous.trainers == 0)
      return no_such_job(context, options.job, to.output);
  }
  PADDLE_TRY_STATUS(check_stall_limit(options.stall_restarts_after, options.restarts.value_or(0)));
  const JobSource& source = options.plan.source;
  PADDLE_TRY(const config::ResolvedJob job, resolve_job(context, source));
  PADDLE_TRY(const Placement placement,
             place(context, nodes.cluster, options.plan, job.config, environment, true));
  PADDLE_TRY(const Workspace workspace, check_job(context, source, job, placement));
  if (options.resume) {
    JobSettings settings =
        settings_of(context, options, previous, job, placement, workspace, environment);
    PADDLE_TRY(settings.data, contents_of_data(context, workspace));
    note_changes(context, previous, settings, environment);
  }
  return print_plan(context, source, nodes.cluster, placement, workspace);
}

// Finds the snapshot that a known job continues from, and checks what has changed since its last
// run.
Status find_continuation(Context& context, const TrainOptions& options, const PreviousRun& previous,
                         JobToStart& job) {
  job.is_known = true;
  PADDLE_TRY(job.settings.data, contents_of_data(context, job.workspace));
  const auto changes = note_changes(context, previous, job.settings, job.request.environment);
  const bool is_own_program = job.workspace.has_own_snapshots();
  auto snapshot =
      find_snapshot_to_resume(context, job.nodes.cluster, job.nodes.chosen,
                              {job.request.job, job.placement.trainers.front(), job.to.output,
                               job.workspace.snapshot_copies > 1, is_own_program});
  if (!snapshot && options.may_begin_anew && snapshot.error().code == Errc::kUsage) {
    context.console.note(snapshot.error().message +
                         ": it begins again with its first pass; train.snapshot_copies = 2 would "
                         "have kept snapshots on two nodes");
    job.request.resume = false;
    return {};
  }
  PADDLE_TRY(job.snapshot, snapshot);
  return is_own_program ? Status()
                        : check_changes(job.request.job, job.snapshot.name, changes,
                                        options.plan.source.workspace);
}

// Chooses nodes, checks the workspace, and finds the snapshot to continue from or to begin with.
Result<JobToStart> prepare(Context& context, TrainOptions options,
                           std::map<std::string, std::string> environment,
                           const std::vector<std::string>& unset) {
  JobToStart job;
  PADDLE_TRY(job.to, destination(context, options.results));
  PADDLE_TRY(job.nodes, nodes_of_job(context, options.plan.target));
  PreviousRun previous;
  if (options.resume) {
    PADDLE_TRY(previous,
               take_last_run(context, job.to.output, unset, options, environment, job.nodes));
  }
  PADDLE_TRY_STATUS(check_stall_limit(options.stall_restarts_after, options.restarts.value_or(0)));
  const ClusterSpec& cluster = job.nodes.cluster;
  PADDLE_TRY(const config::ResolvedJob resolved, resolve_job(context, options.plan.source));
  PADDLE_TRY(job.placement,
             place(context, cluster, options.plan, resolved.config, environment, options.resume));
  PADDLE_TRY(job.workspace, check_job(context, options.plan.source, resolved, job.placement));
  job.data = resolved.config.data;
  note_missing_copies(context, cluster, job.placement, job.workspace);
  PADDLE_TRY(job.engines, engines_of(context, job.placement, job.workspace));
  job.request = request_of(options, job.engines, resolved);
  PADDLE_TRY(job.request.notify, find_notify(resolved.config, user_notify_file()));
  if (options.job.empty())
    job.request.job = default_job_name(job.workspace.name, context.unix_seconds());
  PADDLE_TRY_STATUS(check_job_name(job.request.job));
  PADDLE_TRY_STATUS(check_output(context, job.to.output, job.request.job));
  job.settings =
      settings_of(context, options, previous, resolved, job.placement, job.workspace, environment);
  job.settings.record = {options.tags, options.note,
                         git_state(job.workspace.path, context.interrupted)};
  job.request.run = job.settings.run;
  job.request.environment = std::move(environment);
  if (options.resume) PADDLE_TRY_STATUS(find_continuation(context, options, previous, job));
  if (!options.from.empty() && !job.request.resume) {
    PADDLE_TRY(job.request.from,
               find_start_snapshot(context, cluster, options.from, job.placement.trainers.front(),
                                   job.to.output, job.workspace.has_own_snapshots()));
  }
  const auto plan_here =
      describe_placement(context, options.plan.source, cluster, job.placement, job.workspace);
  if (!plan_here && plan_here.error().code == Errc::kUsage) return plan_here.error();
  return job;
}

// Called before any process runs, so that a start that is broken off is recorded too.
void keep_command(const Context& context, const JobToStart& job, const JobPlan& plan) {
  CommandRecord started;
  started.is_resume = job.is_known;
  started.trainers = plan.trainers.size();
  started.pservers = plan.pservers.size();
  started.record = job.settings.record;
  if (const Status kept = add_command(context, job.to.output, plan.job, started); !kept)
    context.console.note("the report will not show this command: " + kept.error().message);
}

// The job's nodes as they are now, with their processes in the plan.
std::vector<RecordedNode> nodes_of_plan(const ClusterSession& session, const JobPlan& plan,
                                        std::uint64_t run) {
  std::vector<RecordedNode> nodes;
  for (const Member& member : session.members()) {
    nodes.push_back({run, member.spec.name, member.identity, {}});
    for (const auto* const processes : {&plan.pservers, &plan.trainers}) {
      for (const PlannedProcess& process : *processes) {
        if (process.node == member.node) nodes.back().processes.push_back(process.spec.name);
      }
    }
  }
  return nodes;
}

// Writes the settings into the job's output folder here and on its nodes, with the list of nodes
// there. This happens just before any process runs, so that they belong to the last run even if its
// start is broken off.
Status keep_settings(Context& context, ClusterSession& session, const JobToStart& job,
                     const JobPlan& plan) {
  PADDLE_TRY(const auto folder,
             make_output_folder(context, job.to.output, plan.job, "choose another --output"));
  PADDLE_TRY_STATUS(write_settings(folder.string(), job.settings, job.request.job_toml));
  remote::PushSource source("", session.members().size());
  std::vector<remote::PushItem> items{
      {(folder / kSettingsFile).string(), job_folder(plan.job) + "/" + kSettingsFile, false},
      {(folder / kJobFile).string(), job_folder(plan.job) + "/" + kNodesFile, false}};
  items.back().content = encode(nodes_of_plan(session, plan, job.settings.run));
  return session.each([&](Member& member) -> Status {
    const auto pushed = member.client->push(items, source, nullptr);
    return pushed ? Status() : pushed.error();
  });
}

// The error of a start. A teardown at another terminal ends the agents that this command uses, and
// then removes their folders. In that case the error says so.
Error start_error(Context& context, const JobToStart& job, Error error) {
  if (error.code != Errc::kUnreachable && error.code != Errc::kResource) return error;
  const TimePoint until =
      context.clock.now() + (error.code == Errc::kUnreachable ? kTeardownOfANode : Duration());
  while (!context.interrupted()) {
    const ClusterSession now =
        ClusterSession::find(context, job.nodes.cluster, job.placement.nodes);
    const auto gone = std::ranges::find_if(now.members(), &Member::absent);
    if (gone != now.members().end()) {
      return {Errc::kInterrupted,
              fmt::format("job {} was not started: node {} has no folder of this cluster any more, "
                          "as after paddlectl teardown at another terminal",
                          job.request.job, gone->spec.name),
              "run the same command again when that teardown has ended"};
    }
    if (context.clock.now() >= until) break;
    context.pause(kLookForTeardownPeriod);
  }
  return error;
}

// Claims the job, pushes it, and starts its processes. Returns the tests of its earlier runs.
Result<std::size_t> begin(Context& context, ClusterSession& session, const TrainOptions& options,
                          JobToStart& job) {
  const ClusterSpec& cluster = job.nodes.cluster;
  JobRequest& request = job.request;
  PADDLE_TRY_STATUS(all_reached(cluster, session));
  if (job.is_known) {
    PADDLE_TRY_STATUS(claim_old_name(context, session, request.job));
  } else {
    PADDLE_TRY(request.job,
               claim_fresh(context, session, cluster, options.job, request.job, job.to.output));
  }
  PADDLE_TRY(const JobPlan plan,
             claim_ports(context, session, cluster, request, job.placement, job.workspace));
  context.console.note(
      fmt::format("job {}: {}{} on {}", request.job, counted(plan.trainers.size(), "trainer"),
                  plan.pservers.empty() ? "" : ", " + counted(plan.pservers.size(), "pserver"),
                  counted(job.placement.nodes.size(), "node")));
  if (const auto left = context.nodes_left_ms()) context.console.note(time_limit_text(*left));
  if (!job.is_known) {
    PADDLE_TRY(job.settings.data, contents_of_data(context, job.workspace));
  }
  PADDLE_TRY_STATUS(push_job(context, session, plan, job.engines));
  std::size_t past_tests = 0;
  if (job.is_known) {
    PADDLE_TRY(past_tests,
               prepare_to_resume(context, cluster, job.nodes.chosen, plan, job.snapshot));
  }
  PADDLE_TRY_STATUS(run_setup(context, session, plan, job.workspace));
  PADDLE_TRY_STATUS(give_statistics(context, session, plan, job.workspace,
                                    {job.engines.engine.remote_path, job.to.output,
                                     job.snapshot.name, request.from, std::move(job.data)}));
  if (job.is_known) PADDLE_TRY_STATUS(forget_last_run(context, cluster, job.nodes.chosen, plan));
  PADDLE_TRY_STATUS(keep_settings(context, session, job, plan));
  keep_command(context, job, plan);
  if (auto started = start_job(context, session, plan); !started)
    return stop_after(context, session, request.job, job.to.output, std::move(started).error());
  (void)end_claims(session);  // a node that was lost in the meantime releases its own claim
  return past_tests;
}

// Waits until the nodes answer, with an agent prepared on each. kUnreachable: at the deadline.
Status wait_for_nodes(Context& context, const NodeTarget& target, TimePoint deadline) {
  Duration next_note = kFirstWaitNote;
  for (const TimePoint begun = context.clock.now();;) {
    PADDLE_TRY(const JobNodes nodes, nodes_of_job(context, target));
    const ClusterSession session = ClusterSession::open(context, nodes.cluster, nodes.chosen);
    Status ready = session.all_well();
    if (ready || ready.error().code != Errc::kUnreachable) return ready;
    const TimePoint now = context.clock.now();
    if (now >= deadline) return ready;
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    if (now - begun >= next_note) {
      next_note *= 2;
      for (const Member& member : session.members()) {
        if (!member.client) context.console.note(describe_wait(member.spec.name, now - begun));
      }
    }
    context.pause(kNodesLookPeriod);
  }
}

// One try of a StartAgain: `options` and `environment` are those of the job's last start.
Result<std::size_t> try_again(Context& context, ClusterSession& session, TrainOptions options,
                              const std::map<std::string, std::string>& environment,
                              TimePoint deadline) {
  options.resume = options.may_begin_anew = true;
  PADDLE_TRY_STATUS(wait_for_nodes(context, options.plan.target, deadline));
  PADDLE_TRY(JobToStart job, prepare(context, options, environment, {}));
  release_claim(session, options.job);  // begin() makes a new one
  session = ClusterSession::open(context, job.nodes.cluster, job.placement.nodes);
  return begin(context, session, options, job);
}

// A node may be lost again while the job is prepared for it.
StartAgain start_again(const TrainOptions& options,
                       const std::map<std::string, std::string>& environment) {
  return [=](Context& context, ClusterSession& session, TimePoint deadline) {
    for (;;) {
      auto started = try_again(context, session, options, environment, deadline);
      const bool is_lost = !started && started.error().code == Errc::kUnreachable;
      if (!is_lost || context.interrupted() || context.clock.now() >= deadline) return started;
      context.console.note(started.error().message);
      context.pause(kNodesLookPeriod);
    }
  };
}

Status start(Context& context, TrainOptions options, JobToStart& job) {
  ClusterSession session = ClusterSession::open(context, job.nodes.cluster, job.placement.nodes);
  auto past_tests = begin(context, session, options, job);
  if (!past_tests) return start_error(context, job, std::move(past_tests).error());
  if (options.detach) return say_detached(context, job.request.job);
  options.job = job.request.job;
  return follow_to_end(context, session, job.request.job, job.to, *past_tests,
                       start_again(options, job.request.environment));
}

// kUsage if the job cannot have the name that the user asked for. `prepare` may take hours, so this
// comes before it.
Status check_name(Context& context, const TrainOptions& options, const ClusterSpec& cluster,
                  const Placement& placement) {
  if (options.job.empty()) return {};
  PADDLE_TRY_STATUS(check_job_name(options.job));
  PADDLE_TRY(const Destination to, destination(context, options.results));
  ClusterSession session = ClusterSession::open(context, cluster, placement.nodes);
  PADDLE_TRY_STATUS(all_reached(cluster, session));
  const auto claimed = claim_fresh(context, session, cluster, options.job, options.job, to.output);
  release_claim(session, options.job);
  return claimed ? Status() : claimed.error();
}

// Runs the workspace's `prepare` for these options, which then name the data that it made.
Status prepare_on_volume(Context& context, const std::map<std::string, std::string>& environment,
                         TrainOptions& options) {
  PlanOptions& plan = options.plan;
  PADDLE_TRY(const JobNodes nodes, nodes_of_job(context, plan.target));
  PADDLE_TRY_STATUS(check_shared_folder(nodes.cluster));
  PADDLE_TRY(const Placement placement,
             place(context, nodes.cluster, plan, config::JobConfig(), environment, true));
  PADDLE_TRY_STATUS(check_name(context, options, nodes.cluster, placement));
  plan.trainers = static_cast<std::uint32_t>(placement.trainers.size());
  PADDLE_TRY(const std::vector<std::string> data,
             prepare_data(context, nodes.cluster, placement.trainers.front(), plan.source,
                          placement.trainers.size()));
  plan.source.overrides = merged_overrides(plan.source.overrides, data);
  return {};
}

Status run_train(Context& context, const TrainOptions& typed) {
  TrainOptions options = typed;
  PADDLE_TRY(options.tags, checked_tags(typed.tags));
  PADDLE_TRY_STATUS(check_note(typed.note));
  std::vector<std::string> unset;
  PADDLE_TRY(auto environment,
             read_environment(context, options, options.resume ? &unset : nullptr));
  if (options.dry_run) return run_dry(context, options, std::move(environment), unset);
  if (options.prepare) PADDLE_TRY_STATUS(prepare_on_volume(context, environment, options));
  PADDLE_TRY(JobToStart job, prepare(context, options, std::move(environment), unset));
  return start(context, options, job);
}

}  // namespace

OptionList train_options(TrainOptions& options) {
  OptionList list = plan_options(options.plan);
  list.insert(
      list.end(),
      {{"--name,--job", "the job's name; default: <workspace>-<UTC time>", &options.job, "JOB"},
       {"--dry-run",
        "print the plan like `paddlectl plan`, with --resume that of the resumed job; starts "
        "nothing",
        &options.dry_run},
       {"--env",
        "NAME=VALUE for every process of the job, or NAME with its value here (repeatable)",
        &options.environment, "NAME=VALUE"},
       {"--env-file", "a file of such lines; --env takes precedence", &options.environment_file,
        "FILE"},
       {"--restarts",
        "restart a failed process up to this many times an hour, while the others continue "
        "(docs/reliability.md); default: 0",
        &options.restarts, "", 0, kRestartsMax},
       {"--stall-restarts-after",
        "with --restarts: seconds after which a hung process is killed, which counts as a failure; "
        "0: never, else 3 or more; default: 60",
        &options.stall_restarts_after, "SECONDS", 0, kStallSecondsMax},
       {"--resume",
        "continue a job from its last snapshot: the latest, or the one of --name; with the "
        "workspace, options and --set of its last run where this command line has no other",
        &options.resume},
       {"--from",
        "start a new training with the parameters of a snapshot: its folder here, or JOB or "
        "JOB:PASS of this cluster, such as JOB:pass-00002 or JOB:best",
        &options.from,
        "DIR|JOB",
        0,
        UINT32_MAX,
        {},
        {"--resume"}},
       {"--prepare",
        "first run the workspace's `prepare` once, on the volume that all nodes share, and train "
        "on what it made there",
        &options.prepare,
        "",
        0,
        UINT32_MAX,
        {},
        {"--resume", "--dry-run"}},
       {"--tag", "a word to find and compare the job by, such as lr-test (repeatable)",
        &options.tags, "TAG"},
       {"--note", "a line about this run, which `jobs`, `status` and the report show",
        &options.note, "NOTE"},
       {"--detach", "return once the trainers run", &options.detach},
       output_option(options.results.output),
       passes_option(options.results)});
  return list;
}

Result<CheckedTraining> check_training(Context& context, const TrainOptions& options,
                                       const Placement* known) {
  PADDLE_TRY(const auto environment, read_environment(context, options, nullptr));
  PADDLE_TRY(const JobNodes nodes, nodes_of_job(context, options.plan.target));
  PADDLE_TRY_STATUS(check_stall_limit(options.stall_restarts_after, options.restarts.value_or(0)));
  const JobSource& source = options.plan.source;
  PADDLE_TRY(config::ResolvedJob job, resolve_job(context, source));
  Placement placement;
  if (known != nullptr) {
    placement = *known;
  } else {
    PADDLE_TRY(placement,
               place(context, nodes.cluster, options.plan, job.config, environment, true));
  }
  PADDLE_TRY(const Workspace workspace, check_job(context, source, job, placement));
  const auto plan = describe_placement(context, source, nodes.cluster, placement, workspace);
  if (!plan && plan.error().code == Errc::kUsage) return plan.error();
  JobSettings settings =
      settings_of(context, options, PreviousRun(), job, placement, workspace, environment);
  return CheckedTraining{std::move(job), nodes.cluster, nodes.chosen,
                         placement,      workspace,     std::move(settings)};
}

Result<std::string> start_training(Context& context, const TrainOptions& typed) {
  TrainOptions options = typed;
  PADDLE_TRY(options.tags, checked_tags(typed.tags));
  std::vector<std::string> unset;
  PADDLE_TRY(auto environment,
             read_environment(context, options, options.resume ? &unset : nullptr));
  PADDLE_TRY(JobToStart job, prepare(context, options, std::move(environment), unset));
  ClusterSession session = ClusterSession::open(context, job.nodes.cluster, job.placement.nodes);
  const auto begun = begin(context, session, options, job);
  if (!begun) return start_error(context, job, begun.error());
  return job.request.job;
}

StartAgain start_as_before(const ResultsOptions& options, const std::string& job) {
  TrainOptions train;
  train.plan.target = options.target;
  train.job = job;
  train.results = options;
  return start_again(train, {});
}

Command plan_command() {
  return {"plan", "print which node and port would hold which block of each parameter",
          "  paddlectl plan --pservers 2 templates/word2vec\n"
          "  paddlectl plan --set strategy.placement=size_balanced --json",
          [] { return invocation(plan_options, run_plan); }};
}

Command train_command() {
  return {"train",
          "push a workspace, start its pservers and trainers, follow them and fetch the results",
          "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
          "  paddlectl train --set train.passes=10 --name long --detach templates/word2vec\n"
          "  paddlectl train --resume --name long templates/word2vec\n"
          "  paddlectl train --from output/long/pass-00009 templates/word2vec",
          [] { return invocation(train_options, run_train); }};
}

}  // namespace paddle::cli
