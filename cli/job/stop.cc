#include "cli/job/stop.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/job/end_of_job.h"
#include "cli/job/job_claim.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// An error if something since `before` has kept the job from being saved.
Status check_saved(ClusterSession& session, const std::string& job, bool now,
                   const std::vector<ProcessOnNode>& before,
                   const std::vector<ProcessOnNode>& after) {
  const ProcessOnNode* const failed = first_failure(after);
  if (failed == nullptr || first_failure(before) != nullptr) return {};
  if (!is_consequence(failed))
    return failure_error(session, *failed).with(job + " has ended, but could not be saved");
  const bool is_ended = std::ranges::any_of(after, [](const ProcessOnNode& process) {
    return !is_pserver(process.status) && process.status.stop_ordered && process.status.progress;
  });
  if (now || !is_ended) return {};
  return Error{Errc::kFailed, describe_unsaved(after, job),
               "fetch its last snapshot: paddlectl fetch --job " + job};
}

}  // namespace

std::string StoppedJob::text(const std::string& job) const {
  return fmt::format("{}: {}; logs and snapshots stay on the nodes", job,
                     is_joined      ? "stopped, together with another paddlectl stop"
                     : stopped == 0 ? "no process was running"
                                    : counted(stopped, "process") + " stopped");
}

Result<StoppedJob> save_and_end(Context& context, ClusterSession& session, const std::string& job,
                                bool now) {
  auto before = session.processes(job);
  const ClaimTerms terms{.command = now ? JobCommand::kStopNow : JobCommand::kStop};
  PADDLE_TRY(const Claimed claimed, claim_job(context, session, job, terms));
  if (claimed.refused_by) return refusal(*claimed.refused_by, terms.command, job);
  if (claimed.has_waited) {
    PADDLE_TRY_STATUS(choose_job(session, job));  // it may be gone
    if (!claimed.is_joined) before = session.processes(job);
  }
  if (const auto broken = find_broken_start(context, session, job))
    context.console.note(describe(*broken, job));
  StoppedJob ended;
  if (auto lost = find_lost_nodes(session, job, before)) ended.lost = std::move(lost->error);
  if (!now) {
    // stop_job reports unreachable nodes; their trainers receive the stop from the other trainers.
    (void)ask_job_to_stop(session, job);
    PADDLE_TRY_STATUS(wait_for_trainers(context, session, job));
  }
  PADDLE_TRY_STATUS(stop_job(session, job));
  const auto after = session.processes(job);
  for (const ProcessOnNode& process : after) {
    if (!is_running(process.status)) continue;
    return Error{
        Errc::kFailed,
        fmt::format("{} on {} is still running", process.status.name,
                    session.members()[process.member].spec.name),
        "another command may have started it again; end it: paddlectl stop --now --job " + job};
  }
  PADDLE_TRY_STATUS(check_saved(session, job, now, before, after));
  ended.stopped =
      static_cast<std::size_t>(std::ranges::count_if(before, is_running, &ProcessOnNode::status));
  ended.is_joined = claimed.is_joined;
  ended.is_done = std::ranges::all_of(after, [](const ProcessOnNode& process) {
    return is_pserver(process.status) || ended_well(process.status);
  });
  return ended;
}

}  // namespace paddle::cli
