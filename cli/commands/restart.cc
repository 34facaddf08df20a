#include "cli/job/restart.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/following.h"
#include "cli/commands/shared_options.h"
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
          {"job",
           "the job, or one process of it like trainer-2, which may run only in a job with "
           "--restarts; default: all of the latest job",
           &options.words, "JOB"}};
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
    PADDLE_TRY(const std::string text, restart_process(context, session, job, options.process));
    context.console.result(
        Json::object({{"job", job}, {"process", options.process}, {"state", "running"}}), text);
    return {};
  }
  PADDLE_TRY_STATUS(check_whole(context, session, options, job));
  PADDLE_TRY_STATUS(restart_all(context, session, job));
  context.console.result(
      Json::object({{"job", job}, {"state", "running"}}),
      fmt::format("{0} runs again, from its last snapshot if it has one; follow it: paddlectl "
                  "attach {0}",
                  job));
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
