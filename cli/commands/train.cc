// plan and train: a job placed, started, and followed to its end.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/cluster/selection.h"
#include "cli/commands/following.h"
#include "cli/job/check.h"
#include "cli/job/engines.h"
#include "cli/job/folders.h"
#include "cli/job/plan.h"
#include "cli/job/resume/resume.h"
#include "cli/job/setup.h"
#include "cli/job/start.h"
#include "cli/job/warm_start.h"
#include "cli/options/command.h"
#include "cli/options/shared_options.h"
#include "cli/report/surroundings.h"
#include "cli/workspace/trainer_environment.h"

namespace paddle::cli {
namespace {

// A job to place on a cluster.
struct PlanOptions {
  NodeTarget target;
  JobSource source;
  std::uint32_t trainers = 0;             // 0: as many as the capacity of the nodes with the role
  std::optional<std::uint32_t> pservers;  // nothing: one on each node with the role
  std::string gpus;                       // "": trainers get none of their own
};

OptionList plan_options(PlanOptions& options) {
  return {
      cluster_option(options.target.cluster),
      on_option(options.target.on),
      workspace_argument(options.source.workspace),
      {"--trainers",
       "number of trainers; default: one on each node with the role, or its `capacity`",
       &options.trainers, "", 1, kProcessesMax},
      {"--pservers",
       "number of parameter servers; default: one on each node with the role; 0, of dense = "
       "\"collective\" or \"local_sgd\", or a program of your own: none",
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
Result<JobNodes> choose_nodes(const Context& context, const NodeTarget& target) {
  PADDLE_TRY(ClusterSpec cluster, choose_cluster(context.directory, target.cluster));
  PADDLE_TRY(std::vector<std::size_t> chosen, select_nodes(cluster, target.on));
  return JobNodes{with_roles_on(std::move(cluster), chosen), std::move(chosen)};
}

Result<Placement> place(Context& context, const ClusterSpec& cluster, const PlanOptions& options,
                        const std::map<std::string, std::string>& environment) {
  if (options.gpus.empty()) return place_job(cluster, options.trainers, options.pservers);
  PADDLE_TRY(const GpuChoice choice, parse_gpus(options.gpus));
  PADDLE_TRY(std::vector<NodeGpus> gpus, find_gpus(context, cluster, environment, choice));
  return place_on_gpus(cluster, std::move(gpus), options.trainers, options.pservers);
}

// The hint of the error leaves out the nodes that are not reached.
Status all_reached(const ClusterSpec& cluster, ClusterSession& session) {
  Status reached = session.all_well();
  std::vector<std::size_t> well;
  for (const Member& member : session.members()) {
    if (!member.error) well.push_back(member.node);
  }
  if (reached || well.empty()) return reached;
  Error error = std::move(reached).error();
  error.hint += fmt::format("{}train on the others: --on {}", error.hint.empty() ? "" : "; or ",
                            on_text(cluster, well));
  return error;
}

void note_missing_copies(Context& context, const ClusterSpec& cluster, const Placement& placement,
                         const Workspace& workspace) {
  if (workspace.snapshot_copies < 2 || copying_trainer(placement)) return;
  context.console.note(fmt::format(
      "train.snapshot_copies = {}, but {} on node {}: there is no second node for copies, and "
      "snapshots are lost with that one; give another node the role trainer, or raise --trainers",
      workspace.snapshot_copies,
      placement.trainers.size() == 1 ? "the only trainer is" : "all trainers are",
      cluster.nodes[placement.trainers.front()].spec.name));
}

Status show_plan(Context& context, const PlanOptions& options,
                 const std::map<std::string, std::string>& environment) {
  PADDLE_TRY(const JobNodes nodes, choose_nodes(context, options.target));
  const ClusterSpec& cluster = nodes.cluster;
  PADDLE_TRY(const Placement placement, place(context, cluster, options, environment));
  PADDLE_TRY(const Workspace workspace, check_job(context, options.source, placement));
  PADDLE_TRY(const std::string text,
             describe_placement(context, options.source, cluster, placement, workspace));
  note_missing_copies(context, cluster, placement, workspace);
  context.console.raw(text);
  return {};
}

Status run_plan(Context& context, const PlanOptions& options) {
  return show_plan(context, options, {});
}

constexpr std::size_t kWorkspaceNameBytesMax = 80;  // in a job's name, beside the time
constexpr std::uint32_t kRestartsMax = 1000;
constexpr std::uint32_t kStallSecondsMax = 24 * 60 * 60;

struct TrainOptions {
  PlanOptions plan;
  std::string job;  // --name; "": a new name
  ResultsOptions results;
  std::vector<std::string> environment;
  std::string environment_file;
  std::uint32_t restarts = 0;
  std::optional<std::uint32_t> stall_restarts_after;
  bool dry_run = false;
  std::string from;
  bool resume = false;
  bool detach = false;
};

OptionList train_options(TrainOptions& options) {
  OptionList list = plan_options(options.plan);
  list.insert(
      list.end(),
      {{"--name,--job", "the job's name; default: <workspace>-<UTC time>", &options.job, "JOB"},
       {"--dry-run", "print the plan like `paddlectl plan`; starts nothing", &options.dry_run},
       {"--env", "KEY=VALUE for every process of the job, or KEY with its value here (repeatable)",
        &options.environment, "NAME=VALUE"},
       {"--env-file", "a file of such lines; --env takes precedence", &options.environment_file,
        "FILE"},
       {"--restarts",
        "restart a failed process up to this many times an hour, while the others go on "
        "(docs/reliability.md); default: 0",
        &options.restarts, "", 0, kRestartsMax},
       {"--stall-restarts-after",
        "with --restarts: seconds after which a process that hangs is killed, which is a failure; "
        "0: never, else 3 or more; default: 60",
        &options.stall_restarts_after, "SECONDS", 0, kStallSecondsMax},
       {"--resume", "continue a job from its last snapshot: the latest, or the one of --name",
        &options.resume},
       {"--from",
        "start with the parameters of a snapshot, passes counted from 0: its folder here, or JOB "
        "or "
        "JOB:PASS of this cluster (PASS as of --pass)",
        &options.from,
        "DIR",
        0,
        UINT32_MAX,
        {},
        {"--resume"}},
       {"--detach", "return once the trainers run", &options.detach},
       output_option(options.results.output),
       passes_option(options.results)});
  return list;
}

// "<workspace>-20260101-120000", in UTC, with '-' for characters that a job's name may not have.
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

// Checked before the hours of training, not after them.
Status check_output(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (!error) return {};
  return Error{Errc::kResource,
               fmt::format("cannot write results to {}: {}", folder, error.message()),
               "choose another --output"};
}

Result<std::map<std::string, std::string>> read_environment(const Context& context,
                                                            const TrainOptions& options) {
  PADDLE_TRY(auto variables, parse_environment(options.environment));
  if (options.environment_file.empty()) return variables;
  const auto file = std::filesystem::path(context.directory) / options.environment_file;
  PADDLE_TRY(auto of_file, read_environment_file(file.string()));
  variables.merge(of_file);  // keeps those of --env
  return variables;
}

// A detached job, whose id alone is what scripts read.
Status say_detached(Context& context, const std::string& job) {
  if (context.console.json()) {
    context.console.json_line(Json::object({{"job", job}, {"state", "running"}}));
    return {};
  }
  context.console.result(job);
  context.console.note(
      "it keeps running; follow it with `paddlectl attach`, which also fetches the results");
  return {};
}

// As claim_new_name; a name that was asked for, and not "", is also free if only a broken start
// took it.
Result<std::string> claim_fresh(Context& context, ClusterSession& session,
                                const ClusterSpec& cluster, const std::string& asked,
                                const std::string& name) {
  auto claimed = claim_new_name(session, name, !asked.empty());
  if (claimed || asked.empty() || claimed.error().code != Errc::kUsage) return claimed;
  PADDLE_TRY_STATUS(end_claims(session));
  PADDLE_TRY(const bool is_free, forget_broken_start(context, cluster, name));
  return is_free ? claim_new_name(session, name, true) : claimed;
}

// Before any process runs: a start that is broken off is then the last one known too.
void keep_command(const Context& context, const std::string& output, const std::string& job) {
  if (const Status kept = add_command(context, output, job); !kept)
    context.console.note("the report will not show this command: " + kept.error().message);
}

JobRequest request_of(const TrainOptions& options, const JobEngines& engines) {
  JobRequest request;
  request.job = options.job;
  request.engine = engines.engine.remote_path;
  if (engines.gpu_engine) request.gpu_engine = engines.gpu_engine->remote_path;
  request.overrides = options.plan.source.overrides;
  request.resume = options.resume;
  request.restarts = options.restarts;
  request.stall_restarts_after =
      options.stall_restarts_after.value_or(request.stall_restarts_after);
  return request;
}

Status train(Context& context, const TrainOptions& asked) {
  PADDLE_TRY(auto environment, read_environment(context, asked));
  if (asked.dry_run) return show_plan(context, asked.plan, environment);
  TrainOptions options = asked;
  PADDLE_TRY(const JobNodes nodes, choose_nodes(context, options.plan.target));
  const ClusterSpec& cluster = nodes.cluster;
  if (options.resume) {
    PADDLE_TRY(const PreviousRun previous,
               find_previous_run(context, cluster, nodes.chosen, options.job));
    options.job = previous.job;
    if (options.plan.trainers == 0) options.plan.trainers = previous.trainers;
    if (!options.plan.pservers) options.plan.pservers = previous.pservers;
  }
  PADDLE_TRY(const Placement placement, place(context, cluster, options.plan, environment));
  PADDLE_TRY(const Workspace workspace, check_job(context, options.plan.source, placement));
  note_missing_copies(context, cluster, placement, workspace);
  PADDLE_TRY(const JobEngines engines, engines_of(context, placement, workspace));
  JobRequest request = request_of(options, engines);
  if (options.job.empty()) request.job = default_job_name(workspace.name, context.unix_seconds());
  request.environment = std::move(environment);
  PADDLE_TRY_STATUS(check_job_name(request.job));
  PADDLE_TRY(const Destination to, destination(context, options.results));
  PADDLE_TRY_STATUS(check_output(to.output));
  if (!options.from.empty()) {
    PADDLE_TRY(request.from, find_start_snapshot(context, cluster, options.from,
                                                 placement.trainers.front(), to.output));
  }
  SnapshotToPush snapshot;
  if (options.resume) {
    PADDLE_TRY(snapshot, find_snapshot_to_resume(
                             context, cluster, nodes.chosen,
                             {request.job, placement.trainers.front(), to.output,
                              workspace.snapshot_copies > 1, !workspace.command.empty()}));
  }
  const auto plan_here =
      describe_placement(context, options.plan.source, cluster, placement, workspace);
  if (!plan_here && plan_here.error().code == Errc::kUsage) return plan_here.error();

  ClusterSession session = ClusterSession::open(context, cluster, placement.nodes);
  PADDLE_TRY_STATUS(all_reached(cluster, session));
  if (options.resume) {
    PADDLE_TRY_STATUS(claim_old_name(session, request.job));
  } else {
    PADDLE_TRY(request.job, claim_fresh(context, session, cluster, options.job, request.job));
  }
  PADDLE_TRY(const JobPlan plan,
             claim_ports(context, session, cluster, request, placement, workspace));
  context.console.note(
      fmt::format("job {}: {}{} on {}", request.job, counted(plan.trainers.size(), "trainer"),
                  plan.pservers.empty() ? "" : ", " + counted(plan.pservers.size(), "pserver"),
                  counted(placement.nodes.size(), "node")));
  PADDLE_TRY_STATUS(push_job(context, session, plan, engines));
  std::size_t past_tests = 0;
  if (options.resume) {
    PADDLE_TRY(past_tests, prepare_to_resume(context, cluster, nodes.chosen, plan, snapshot));
  }
  PADDLE_TRY_STATUS(run_setup(context, session, plan, workspace));
  if (options.resume)
    PADDLE_TRY_STATUS(forget_ended_processes(context, cluster, nodes.chosen, plan.job));
  keep_command(context, to.output, request.job);
  if (auto started = start_job(context, session, plan); !started) {
    return stop_after(context, session, request.job, to.output, std::move(started).error());
  }
  (void)end_claims(session);  // a node lost meanwhile releases its own
  if (options.detach) return say_detached(context, request.job);
  return follow_to_end(context, session, request.job, to, past_tests);
}

Status run_train(Context& context, const TrainOptions& options) {
  PADDLE_TRY_STATUS(check_stall_limit(options.stall_restarts_after, options.restarts));
  return train(context, options);
}

}  // namespace

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
          "  paddlectl train --resume --name long-run templates/word2vec\n"
          "  paddlectl train --from output/long-run/pass-00009 templates/word2vec",
          [] { return invocation(train_options, run_train); }};
}

}  // namespace paddle::cli
