#include "cli/job/restart.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/job/end_of_job.h"
#include "cli/job/job_claim.h"
#include "cli/job/start.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// Whether every process in `before` was started again, and runs or has ended well.
bool was_started_again(ClusterSession& session, const std::string& job,
                       const std::vector<ProcessOnNode>& before) {
  const auto now = session.processes(job);
  return std::ranges::all_of(before, [&](const ProcessOnNode& old) {
    return std::ranges::any_of(now, [&](const ProcessOnNode& process) {
      const remote::ProcessStatus& status = process.status;
      const bool is_another =
          status.incarnation != old.status.incarnation || status.run != old.status.run;
      return status.name == old.status.name && is_another &&
             (is_running(status) || ended_well(status));
    });
  });
}

// If another command stopped the job in the meantime, it must stay stopped.
Status check_not_stopped(ClusterSession& session, const std::string& job,
                         const std::vector<ProcessOnNode>& before) {
  if (std::ranges::none_of(before, is_running_trainer)) return {};
  const auto now = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  const auto stopped = std::ranges::find_if(now, [](const ProcessOnNode& process) {
    return !is_pserver(process.status) && !process.status.stopped_by.empty();
  });
  if (stopped == now.end() || std::ranges::any_of(now, is_running_trainer)) return {};
  return Error{Errc::kUsage,
               fmt::format("job {} was ended meanwhile by {}; it was not started again", job,
                           stopped->status.stopped_by),
               "to start it again anyway: paddlectl restart --job " + job};
}

}  // namespace

Status check_not_done(ClusterSession& session, const std::string& job) {
  auto processes = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  std::erase_if(processes, [](const ProcessOnNode& p) { return is_pserver(p.status); });
  if (processes.empty() || !std::ranges::all_of(processes, ended_well, &ProcessOnNode::status))
    return {};
  const bool is_own = is_own_program(processes.front().status);
  return Error{
      Errc::kUsage, fmt::format("job {} is done; it was not started again", job),
      is_own ? fmt::format("to run its program again: paddlectl train <workspace>; or, where it "
                           "has saved a checkpoint: paddlectl train --resume --name {} <workspace>",
                           job)
             : fmt::format("to continue training from its last snapshot: paddlectl train --resume "
                           "--name {} --set train.passes=N <workspace>",
                           job)};
}

Result<std::string> restart_process(Context& context, ClusterSession& session,
                                    const std::string& job, const std::string& name) {
  const auto processes = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  const auto found =
      std::ranges::find(processes, name, [](const ProcessOnNode& p) { return p.status.name; });
  if (found == processes.end()) {
    return Error{Errc::kUsage, fmt::format("job {} has no process '{}'", job, name),
                 "see its processes: paddlectl status --job " + job};
  }
  Member& member = session.members()[found->member];
  const auto runs = [](const ProcessOnNode& p) { return is_running(p.status); };
  const bool runs_there = std::ranges::any_of(
      processes, [&](const ProcessOnNode& p) { return p.member == found->member && runs(p); });
  if (!runs_there) {
    const std::string step = std::ranges::any_of(processes, runs)
                                 ? "end the job, then: paddlectl train --resume --name "
                                 : "start all of it again: paddlectl restart --job ";
    return Error{Errc::kUsage,
                 fmt::format("no process of job {} runs on {}: the keys of {} were removed with "
                             "the last process there",
                             job, member.spec.name, name),
                 step + job};
  }
  const ClaimTerms terms{.command = JobCommand::kRestartProcess, .process = name};
  PADDLE_TRY(const Claimed claimed, claim_job(context, session, job, terms));
  if (claimed.refused_by) return refusal(*claimed.refused_by, terms.command, job);
  if (claimed.has_waited) PADDLE_TRY_STATUS(choose_job(session, job));
  PADDLE_TRY_STATUS(check_not_stopped(session, job, processes));
  if (!claimed.is_joined || !was_started_again(session, job, {*found}))
    PADDLE_TRY_STATUS(member.client->restart(job, {name}));
  const bool is_own = !found->status.reports;
  return fmt::format(
      "{} on {} is started again and {}, while the others continue or wait for it; this restart "
      "does not count for --restarts",
      name, member.spec.name,
      is_own                      ? "loads what it has saved"
      : is_pserver(found->status) ? "loads its copy from some seconds ago"
                                  : "continues at its batch");
}

Status restart_all(Context& context, ClusterSession& session, const std::string& job) {
  const auto before = session.processes(job);
  const ClaimTerms terms{.command = JobCommand::kRestart};
  PADDLE_TRY(const Claimed claimed, claim_job(context, session, job, terms));
  if (claimed.refused_by) return refusal(*claimed.refused_by, terms.command, job);
  if (claimed.has_waited) {
    PADDLE_TRY_STATUS(choose_job(session, job));
    if (claimed.is_joined && was_started_again(session, job, before)) return {};
    PADDLE_TRY_STATUS(check_not_done(session, job));
  }
  PADDLE_TRY_STATUS(check_not_stopped(session, job, before));
  PADDLE_TRY_STATUS(ask_job_to_stop(session, job));
  PADDLE_TRY_STATUS(note_phase(context, session, job, terms, "waits for its trainers to save"));
  PADDLE_TRY_STATUS(wait_for_trainers(context, session, job));
  PADDLE_TRY_STATUS(stop_job(session, job));
  Status restarted = restart_job(context, session, job);
  if (restarted) return {};
  // The processes that did start would wait for the others.
  Error error = std::move(restarted).error();
  if (const Status stopped = stop_job(session, job); !stopped)
    error.message += "\nsome processes could not be stopped: " + stopped.error().message;
  error.hint += fmt::format("{}continue from its last snapshot: paddlectl train --resume --name {}",
                            error.hint.empty() ? "" : "; ", job);
  return error;
}

}  // namespace paddle::cli
