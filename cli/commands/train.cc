#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/job/check.h"
#include "cli/job/claim.h"
#include "cli/job/follow.h"
#include "cli/job/plan.h"
#include "cli/job/results.h"
#include "cli/job/resume.h"
#include "cli/job/start.h"
#include "cli/job/stop.h"
#include "cli/report/report.h"
#include "cli/workspace/engine_binary.h"
#include "cli/workspace/engine_program.h"
#include "cli/workspace/trainer_environment.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kWorkspaceNameBytesMax = 80;  // in a job's name, which has the time as well

// "<workspace>-20260101-120000", in UTC; what a job's name may not have is '-' in it.
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

std::string results_folder(const Context& context, const CommandOptions& options) {
  return options.output.starts_with('/') ? options.output
                                         : context.directory + "/" + options.output;
}

// Before the hours of training, not after them.
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

// Stops what is left and lets the first error stand; what could not be stopped is added to it.
Error stop_after(Context& context, ClusterSession& session, const std::string& job, Error error) {
  context.console.end_progress();
  context.console.note("stopping the rest of the job");
  session.reconnect(context);
  auto stopped = stop_job(session, job);
  if (!stopped && stopped.error().code == Errc::kUnreachable) {  // a loss that only this has shown
    session.reconnect(context);
    stopped = stop_job(session, job);
  }
  if (!stopped) {
    error.message += "\nand not everything could be stopped: " + stopped.error().message;
    error.hint = "run: paddlectl stop, or paddlectl teardown";
    if (error.code == Errc::kInterrupted) error.code = Errc::kFailed;
  } else if (error.code == Errc::kInterrupted) {
    error.message = fmt::format(
        "interrupted: {} is stopped; bring its logs and snapshots home with paddlectl fetch", job);
  }
  return error;
}

// Stops the pservers of a job whose trainers have ended, fetches and reports. Prints the results'
// folder and the job's state: "done", or "stopped" when it can go on.
Status finish_job(Context& context, ClusterSession& session, const std::string& job,
                  const std::string& output, const std::string& state = "done") {
  PADDLE_TRY_STATUS(stop_job(session, job));
  PADDLE_TRY(const FetchStats stats, fetch_results(session, job, output));
  add_report(context, session, job, output);
  const std::string folder = shown_path(context, (std::filesystem::path(output) / job).string());
  if (context.console.json()) {
    context.console.json_line(
        Json::object({{"job", job}, {"state", state}, {"files", stats.files}, {"output", folder}}));
  } else {
    context.console.result(fmt::format("{}: {} files in {}", state, stats.files, folder));
  }
  return {};
}

Status follow_to_end(Context& context, ClusterSession& session, const std::string& job,
                     const std::string& output) {
  auto followed = follow_job(context, session, job);
  if (!followed && followed.error().code == Errc::kInterrupted && context.take_interrupt) {
    followed = follow_to_stop(context, session, job);
  }
  if (followed) return finish_job(context, session, job, output);
  Error error = std::move(followed).error();
  if (error.code == Errc::kResumable) {
    PADDLE_TRY_STATUS(finish_job(context, session, job, output, "stopped"));
    return error;
  }
  const bool job_goes_on = session.unreachable() > 0 && error.code == Errc::kUnreachable;
  if (job_goes_on) return error;
  error = stop_after(context, session, job, std::move(error));
  if (error.code == Errc::kInterrupted) return error;
  if (auto fetched = fetch_results(session, job, output)) {
    add_report(context, session, job, output);
    context.console.note("logs are in " + shown_path(context, output + "/" + job));
  }
  return error;
}

}  // namespace

Status run_train(Context& context, const CommandOptions& asked) {
  if (asked.dry_run) return run_plan(context, asked);
  CommandOptions options = asked;
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  if (options.resume) {
    PADDLE_TRY(const PreviousRun previous, find_previous_run(context, cluster, options.job));
    options.job = previous.job;
    if (options.trainers == 0) options.trainers = previous.trainers;
    if (options.pservers == 0) options.pservers = previous.pservers;
  }
  PADDLE_TRY(const Placement placement, place_job(cluster, options.trainers, options.pservers));
  PADDLE_TRY(const Workspace workspace,
             check_job(context, {options.workspace, options.overrides}, placement));
  PADDLE_TRY(const remote::PushItem engine, engine_item(context.engine));
  PADDLE_TRY_STATUS(check_engine_version(context.engine));
  JobRequest request;
  request.job =
      options.job.empty() ? default_job_name(workspace.name, context.unix_seconds()) : options.job;
  request.engine = engine.remote_path;
  request.overrides = options.overrides;
  request.resume = options.resume;
  request.restarts = options.restarts;
  PADDLE_TRY(request.environment, parse_environment(options.environment));
  PADDLE_TRY_STATUS(check_job_name(request.job));
  PADDLE_TRY_STATUS(check_output(results_folder(context, options)));
  const auto plan_here = describe_placement(context, {options.workspace, options.overrides},
                                            cluster, placement, workspace);
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
    PADDLE_TRY_STATUS(prepare_to_resume(context, cluster, plan, results_folder(context, options)));
  }
  if (auto started = start_job(context, session, plan); !started) {
    return stop_after(context, session, request.job, std::move(started).error());
  }
  (void)end_claims(session);  // a node that is lost meanwhile lets go by itself
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
  return follow_to_end(context, session, request.job, results_folder(context, options));
}

Status run_attach(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  PADDLE_TRY_STATUS(session.all_well());
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  auto followed = follow_job(context, session, job);
  if (followed) return finish_job(context, session, job, results_folder(context, options));
  Error error = std::move(followed).error();
  if (error.code == Errc::kResumable) {
    PADDLE_TRY_STATUS(
        finish_job(context, session, job, results_folder(context, options), "stopped"));
    return error;
  }
  if (error.code == Errc::kInterrupted) {
    error.message = fmt::format("detached from {}; it runs on", job);
    return error;
  }
  if (session.unreachable() > 0) return error;
  return stop_after(context, session, job, std::move(error));
}

}  // namespace paddle::cli
