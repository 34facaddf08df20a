#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/job_end.h"
#include "cli/commands/plan.h"
#include "cli/job/claim.h"
#include "cli/job/folders.h"
#include "cli/job/follow.h"
#include "cli/job/plan.h"
#include "cli/job/resume.h"
#include "cli/job/start.h"
#include "cli/options/shared_options.h"
#include "cli/workspace/engine_binary.h"
#include "cli/workspace/engine_program.h"
#include "cli/workspace/trainer_environment.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kWorkspaceNameBytesMax = 80;  // in a job's name, beside the time
constexpr std::uint32_t kRestartsMax = 1000;

struct TrainOptions {
  PlanOptions plan;
  std::string job;  // --name; "": a new name
  std::string output = "output";
  std::vector<std::string> environment;
  std::uint32_t restarts = 0;
  bool dry_run = false;
  bool resume = false;
  bool detach = false;
};

OptionList list_options(TrainOptions& options) {
  OptionList list = plan_options(options.plan);
  list.insert(
      list.end(),
      {{"--name", "the job's name; default: <workspace>-<UTC time>", &options.job},
       {"--dry-run", "print the plan like `paddlectl plan`; starts nothing", &options.dry_run},
       {"--env", "KEY=VALUE for every process of the job (repeatable)", &options.environment},
       {"--restarts",
        "restart a failed process, and the job with it from its last snapshot, up to this many "
        "times; default: 0",
        &options.restarts, "", 0, kRestartsMax},
       {"--resume", "continue a job from its last snapshot: the latest, or the one of --name",
        &options.resume},
       {"--detach", "return once the trainers run", &options.detach},
       output_option(options.output)});
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

Status run(Context& context, const TrainOptions& asked) {
  if (asked.dry_run) return run_plan(context, asked.plan);
  TrainOptions options = asked;
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.plan.cluster));
  if (options.resume) {
    PADDLE_TRY(const PreviousRun previous, find_previous_run(context, cluster, options.job));
    options.job = previous.job;
    if (options.plan.trainers == 0) options.plan.trainers = previous.trainers;
    if (options.plan.pservers == 0) options.plan.pservers = previous.pservers;
  }
  PADDLE_TRY(const Placement placement,
             place_job(cluster, options.plan.trainers, options.plan.pservers));
  PADDLE_TRY(const Workspace workspace, check_job(context, options.plan.source, placement));
  PADDLE_TRY(const remote::PushItem engine, engine_item(context.engine));
  PADDLE_TRY_STATUS(check_engine_version(context.engine));
  JobRequest request;
  request.job =
      options.job.empty() ? default_job_name(workspace.name, context.unix_seconds()) : options.job;
  request.engine = engine.remote_path;
  request.overrides = options.plan.source.overrides;
  request.resume = options.resume;
  request.restarts = options.restarts;
  PADDLE_TRY(request.environment, parse_environment(options.environment));
  PADDLE_TRY_STATUS(check_job_name(request.job));
  const std::string output = results_folder(context, options.output);
  PADDLE_TRY_STATUS(check_output(output));
  const auto plan_here =
      describe_placement(context, options.plan.source, cluster, placement, workspace);
  if (!plan_here && plan_here.error().code == Errc::kUsage) return plan_here.error();

  ClusterSession session = ClusterSession::open(context, cluster, placement.nodes);
  PADDLE_TRY_STATUS(session.all_well());
  if (options.resume) {
    PADDLE_TRY_STATUS(claim_old_name(session, request.job));
  } else {
    PADDLE_TRY(request.job, claim_new_name(session, request.job, !options.job.empty()));
  }
  PADDLE_TRY(const JobPlan plan,
             claim_ports(context, session, cluster, request, placement, workspace));
  context.console.note(fmt::format(
      "job {}: {}, {} on {}", request.job, counted(plan.trainers.size(), "trainer"),
      counted(plan.pservers.size(), "pserver"), counted(placement.nodes.size(), "node")));
  PADDLE_TRY_STATUS(push_job(context, session, plan, engine));
  if (options.resume) {
    PADDLE_TRY_STATUS(prepare_to_resume(context, cluster, plan, output));
  }
  if (auto started = start_job(context, session, plan); !started) {
    return stop_after(context, session, request.job, std::move(started).error());
  }
  (void)end_claims(session);  // a node lost meanwhile releases its own
  if (options.detach) {
    if (context.console.json()) {
      context.console.json_line(Json::object({{"job", request.job}, {"state", "running"}}));
    } else {
      context.console.result(request.job);
      context.console.note(
          "it runs on; look with `paddlectl attach`, which also brings the results home");
    }
    return {};
  }
  return follow_to_end(context, session, request.job, output);
}

}  // namespace

Command train_command() {
  return {"train",
          "push a workspace, start its pservers and trainers, follow them and fetch the results",
          "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
          "  paddlectl train --set train.passes=10 --name long-run --detach templates/word2vec\n"
          "  paddlectl train --resume --name long-run templates/word2vec",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
