#include <atomic>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/job/folders.h"
#include "cli/job/process_state.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {
namespace {

struct RmOptions {
  std::string cluster;
  std::vector<std::string> jobs;
};

OptionList rm_options(RmOptions& options) {
  return {cluster_option(options.cluster), {"jobs", "jobs that have ended", &options.jobs}};
}

// A job whose start broke off has files but no process.
bool has_files(ClusterSession& session, const std::string& job) {
  std::atomic<bool> found = false;
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list(job_folder(job)));
    if (!files.empty()) found = true;
    return {};
  });
  return found;
}

Status run_rm(Context& context, const RmOptions& options) {
  if (options.jobs.empty()) {
    return Error{Errc::kUsage, "no job is named", "paddlectl status names the latest one"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  // Check every job before the first is removed.
  for (const std::string& job : options.jobs) {
    PADDLE_TRY_STATUS(check_job_name(job));
    if (!has_files(session, job)) PADDLE_TRY_STATUS(choose_job(session, job));
    for (const ProcessOnNode& process : session.processes(job)) {
      if (!is_running(process.status)) continue;
      return Error{Errc::kUsage,
                   fmt::format("job {} still runs: {} on {}", job, process.status.name,
                               session.members()[process.member].spec.name),
                   "end it first: paddlectl stop --job " + job};
    }
    PADDLE_TRY_STATUS(session.all_well());
  }
  for (const std::string& job : options.jobs) {
    // The claim keeps others from starting the job; if one node refuses it, no node removes.
    PADDLE_TRY_STATUS(
        session.each([&](Member& member) { return member.client->claim_job(job, true); }));
    PADDLE_TRY_STATUS(
        session.each([&](Member& member) { return member.client->remove(job_folder(job)); }));
    context.console.result(Json::object({{"job", job}, {"state", "removed"}}),
                           job + " is removed from the nodes; what was fetched stays here");
  }
  return {};
}

}  // namespace

Command rm_command() {
  return {"rm", "remove ended jobs and their snapshots from the nodes",
          "  paddlectl rm word2vec-20260101-120000", [] { return invocation(rm_options, run_rm); }};
}

}  // namespace paddle::cli
