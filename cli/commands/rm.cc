#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/cluster/unknown_nodes.h"
#include "cli/commands/shared_options.h"
#include "cli/job/folders.h"
#include "cli/job/job_claim.h"
#include "cli/job/removal.h"

namespace paddle::cli {
namespace {

struct RmOptions {
  std::string cluster;
  std::vector<std::string> jobs;
  bool ended = false;
  RemovalConsent consent;
};

OptionList rm_options(RmOptions& options) {
  return {cluster_option(options.cluster),
          {"jobs", "jobs that have ended", &options.jobs, "JOB"},
          {"--ended", "every job that has ended and whose results were fetched", &options.ended},
          {"--yes", "do not ask; without --discard it is refused when results were never fetched",
           &options.consent.yes},
          {"--discard",
           "with --yes: lose results that were never fetched; with --ended: those jobs "
           "too",
           &options.consent.discard},
          {"--dry-run", "list what would be removed: jobs, files and bytes of each node",
           &options.consent.dry_run}};
}

// Waits for a `stop` that is working on the job.
Status await_stop(Context& context, ClusterSession& session, const std::string& job) {
  PADDLE_TRY_STATUS(check_job_name(job));
  const auto processes = session.processes(job);
  const bool is_stopping = std::ranges::any_of(processes, [](const ProcessOnNode& process) {
    return std::ranges::any_of(process.status.claims, [](const remote::JobClaim& claim) {
      return claim.command == JobCommand::kStop || claim.command == JobCommand::kStopNow;
    });
  });
  if (!is_stopping) return {};
  const auto claimed = claim_job(context, session, job, {.command = JobCommand::kRm, .idle = true});
  release_claim(session, job);
  // If the claim is refused for another reason, the checks that follow report it.
  const bool is_left = !claimed && claimed.error().code == Errc::kInterrupted;
  return is_left ? Status(claimed.error()) : Status();
}

// Checks every named job before the first one is removed.
Result<std::vector<JobOnNodes>> named_jobs(Context& context, ClusterSession& session,
                                           const ClusterSpec& cluster, std::vector<JobOnNodes> all,
                                           const std::vector<std::string>& names) {
  std::vector<JobOnNodes> chosen;
  for (const std::string& name : names) {
    PADDLE_TRY_STATUS(check_job_name(name));
    const auto found = std::ranges::find(all, name, &JobOnNodes::job);
    if (found == all.end()) {
      auto known = choose_job(session, name);
      if (!known) return with_unknown_nodes(context, session, cluster, std::move(known).error());
      continue;
    }
    for (const JobPart& part : found->parts) {
      if (part.running.empty()) continue;
      return Error{Errc::kUsage,
                   fmt::format("job {} still runs: {} on {}", name, part.running.front(),
                               session.members()[part.member].spec.name),
                   "end it first: paddlectl stop --job " + name};
    }
    chosen.push_back(std::move(*found));
    all.erase(found);
  }
  return chosen;
}

// Returns the jobs that may be removed; prints which jobs stay, and why.
std::vector<JobOnNodes> ended_jobs(Context& context, ClusterSession& session,
                                   std::vector<JobOnNodes> all, bool unfetched_too) {
  std::erase_if(all, [&](const JobOnNodes& job) {
    const bool stays = job.is_running() || (job.is_unfetched() && !unfetched_too);
    if (stays) context.console.note("kept: " + describe_loss(session, job));
    return stays;
  });
  return all;
}

Status run_rm(Context& context, const RmOptions& options) {
  if (options.jobs.empty() != options.ended) {
    return Error{
        Errc::kUsage,
        options.ended ? "--ended takes no job names" : "rm needs the name of a job, or --ended",
        "paddlectl jobs lists them; paddlectl rm --ended removes all that have ended"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  session.forgive_absent();
  const auto left_out =
      leave_out_as_up_did(context, session, cluster, {.cluster = options.cluster, .on = ""});
  PADDLE_TRY_STATUS(session.all_well());
  if (!options.consent.dry_run) {
    for (const std::string& job : options.jobs)
      PADDLE_TRY_STATUS(await_stop(context, session, job));
  }
  std::vector<JobOnNodes> jobs;
  PADDLE_TRY_STATUS(list_jobs_on_nodes(session, jobs));
  if (options.ended) {
    jobs = ended_jobs(context, session, std::move(jobs), options.consent.discard);
  } else {
    PADDLE_TRY(jobs, named_jobs(context, session, cluster, std::move(jobs), options.jobs));
  }
  if (options.consent.dry_run) {
    context.console.table(removal_table(session, jobs));
    return {};
  }
  if (jobs.empty()) context.console.note("no job was removed");
  PADDLE_TRY_STATUS(ask_for_consent(context, session, jobs, options.consent, false));
  for (const JobOnNodes& removed : jobs) {
    const std::string& job = removed.job;
    // The claim keeps other commands from starting or fetching the job; if one node refuses it, no
    // node removes the job. Of two commands that remove the job, the second finds nothing to
    // remove.
    PADDLE_TRY_STATUS(
        claim_or_refuse(context, session, job, {.command = JobCommand::kRm, .idle = true}));
    PADDLE_TRY_STATUS(
        session.each([&](Member& member) { return member.client->remove(job_folder(job)); }));
    release_claim(session, job);
    context.console.result(Json::object({{"job", job}, {"state", "removed"}}),
                           job + " is removed from the nodes; fetched files stay here");
  }
  if (!left_out.empty() && !jobs.empty()) {
    context.console.note(fmt::format(
        "the files that {} {} of {} stay there; remove them with the same command once {}",
        fmt::join(left_out, ", "), left_out.size() == 1 ? "has" : "have",
        jobs.size() == 1 ? jobs.front().job : "these jobs",
        left_out.size() == 1 ? "it answers" : "they answer"));
  }
  return {};
}

}  // namespace

Command rm_command() {
  return {"rm", "remove ended jobs and their snapshots from the nodes",
          "  paddlectl rm word2vec-20260101-120000\n"
          "  paddlectl rm --ended --yes",
          [] { return invocation(rm_options, run_rm); }};
}

}  // namespace paddle::cli
