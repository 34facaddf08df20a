#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/following.h"
#include "cli/commands/shared_options.h"
#include "cli/job/end_of_job.h"
#include "cli/job/job_claim.h"
#include "cli/job/start.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

struct RestartOptions {
  JobTarget target;
  std::string process;             // "": the whole job
  std::vector<std::string> words;  // a job, a process, or both
};

bool is_process(const std::string& word) {
  return word.starts_with("trainer-") || word.starts_with("pserver-");
}

// Separates jobs from processes among the words.
Result<RestartOptions> sorted(RestartOptions options) {
  for (const std::string& word : options.words) {
    std::string& place = is_process(word) ? options.process : options.target.job;
    if (!place.empty()) {
      return Error{Errc::kUsage,
                   fmt::format("'{}' and '{}' cannot be restarted together", place, word),
                   "paddlectl restart JOB, or paddlectl restart JOB trainer-2"};
    }
    place = word;
  }
  return options;
}

OptionList restart_options(RestartOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          job_option(options.target),
          {"job", "the job, or one process of it like trainer-2; default: all of the latest job",
           &options.words, "JOB"}};
}

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

Status restart_process(Context& context, ClusterSession& session, const std::string& job,
                       const std::string& name) {
  const auto processes = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  const auto found =
      std::ranges::find(processes, name, [](const ProcessOnNode& p) { return p.status.name; });
  if (found == processes.end()) {
    return Error{Errc::kUsage, fmt::format("job {} has no process '{}'", job, name),
                 "see its processes: paddlectl status"};
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
  context.console.result(
      Json::object({{"job", job}, {"process", name}, {"state", "running"}}),
      fmt::format("{} on {} is started again and {}, while the others continue or wait for it; "
                  "this restart does not count for --restarts",
                  name, member.spec.name,
                  is_own                      ? "loads what it has saved"
                  : is_pserver(found->status) ? "loads its copy from some seconds ago"
                                              : "continues at its batch"));
  return {};
}

// Refuses to restart a job whose trainers have all ended well.
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

// Refuses an incomplete job: its processes would wait for the missing ones.
Status check_whole(Context& context, ClusterSession& session, const RestartOptions& options,
                   const std::string& job) {
  const auto processes = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  // If another command is starting the job, the claim refuses later and names that command.
  const bool is_claimed =
      std::ranges::any_of(processes, [](const ProcessOnNode& p) { return p.status.claimed; });
  const std::vector<std::string> missing = missing_processes(processes);
  if (missing.empty() || is_claimed || !options.target.on.empty()) return {};
  const bool runs = std::ranges::any_of(processes, is_running, &ProcessOnNode::status);
  return Error{Errc::kUsage,
               fmt::format("job {} is incomplete: no node has {}; it was not started again", job,
                           fmt::join(missing, ", ")),
               runs ? "end the rest of it: paddlectl stop --job " + job
                    : next_step(context, session, job, context.directory + "/output",
                                "continue from its last snapshot")};
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

Status run_restart(Context& context, const RestartOptions& asked) {
  PADDLE_TRY(const RestartOptions options, sorted(asked));
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kRefusedUnlessAbsent));
  auto& [cluster, session, job] = found;
  PADDLE_TRY_STATUS(check_not_done(session, job));
  if (const auto broken = find_broken_start(context, session, job)) {
    return Error{Errc::kUsage, describe(*broken, job),
                 fmt::format("start it again: paddlectl train --name {} <workspace>; add --resume "
                             "if it has a snapshot",
                             job)};
  }
  if (!options.process.empty()) {
    return restart_process(context, session, job, options.process);
  }
  PADDLE_TRY_STATUS(check_whole(context, session, options, job));
  PADDLE_TRY_STATUS(restart_all(context, session, job));
  context.console.result(
      Json::object({{"job", job}, {"state", "running"}}),
      fmt::format(
          "{} runs again, from its last snapshot if it has one; follow it: paddlectl attach", job));
  return {};
}

}  // namespace

Command restart_command() {
  return {"restart", "save a job and start it again from there, or restart one process",
          "  paddlectl restart\n"
          "  paddlectl restart --job word2vec-20260101-120000 trainer-2",
          [] { return invocation(restart_options, run_restart); }};
}

}  // namespace paddle::cli
