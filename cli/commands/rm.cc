#include <atomic>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/job/plan.h"

namespace paddle::cli {
namespace {

// Also a job whose start broke off has some, and no process.
bool has_files(ClusterSession& session, const std::string& job) {
  std::atomic<bool> found = false;
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list(job_folder(job)));
    if (!files.empty()) found = true;
    return {};
  });
  return found;
}

}  // namespace

Status run_rm(Context& context, const CommandOptions& options) {
  if (options.jobs.empty()) {
    return Error{Errc::kUsage, "no job is named", "paddlectl status names the latest one"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  for (Member& member : session.members()) {
    if (member.absent) member.error.reset();  // nothing of the job is left there
  }
  PADDLE_TRY_STATUS(session.all_well());
  // All of them are looked at before the first is removed.
  for (const std::string& job : options.jobs) {
    PADDLE_TRY_STATUS(check_job_name(job));
    if (!has_files(session, job)) PADDLE_TRY_STATUS(choose_job(session, job));
    for (const ProcessOnNode& process : session.processes(job)) {
      if (process.status.state != remote::ProcessState::kRunning) continue;
      return Error{Errc::kUsage,
                   fmt::format("job {} still runs: {} on {}", job, process.status.name,
                               session.members()[process.member].spec.name),
                   "end it first: paddlectl stop --job " + job};
    }
    PADDLE_TRY_STATUS(session.all_well());
  }
  for (const std::string& job : options.jobs) {
    // Nobody starts it meanwhile; and when somebody does on one node, all of them keep it.
    PADDLE_TRY_STATUS(
        session.each([&](Member& member) { return member.client->claim_job(job, true); }));
    PADDLE_TRY_STATUS(
        session.each([&](Member& member) { return member.client->remove(job_folder(job)); }));
    if (context.console.json()) {
      context.console.json_line(Json::object({{"job", job}, {"state", "removed"}}));
    } else {
      context.console.result(job + " is removed from the nodes; what was fetched stays here");
    }
  }
  return {};
}

}  // namespace paddle::cli
