#include <optional>

#include <fmt/format.h>

#include "cli/commands/shared_options.h"
#include "cli/job/end_of_job.h"

namespace paddle::cli {
namespace {

struct WaitOptions {
  NodeTarget target;
  std::vector<std::string> jobs;
};

OptionList wait_options(WaitOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          {"jobs", "the jobs; default: the latest", &options.jobs, "JOB"}};
}

// The state of the job, in the words of `jobs`.
std::string_view state_after(const Context& context, const Status& ended, bool is_late) {
  if (ended) return "done";
  switch (ended.error().code) {
    case Errc::kResumable:
      return "stopped";
    case Errc::kInterrupted:
      return context.interrupted() ? "running" : "stopped";
    case Errc::kUnreachable:
      return is_late ? "running" : "unknown";
    default:
      return "failed";
  }
}

// Finds every job before it waits for the first one.
Result<std::vector<FoundJob>> find_jobs(Context& context, const WaitOptions& options) {
  std::vector<std::string> names = options.jobs;
  if (names.empty()) names.emplace_back();
  std::vector<FoundJob> found;
  for (const std::string& name : names) {
    JobTarget target;
    target.cluster = options.target.cluster;
    target.on = options.target.on;
    target.job = name;
    PADDLE_TRY(FoundJob one, find_job(context, target, Missing::kRefusedUnlessAbsent));
    found.push_back(std::move(one));
  }
  return found;
}

Status run_wait(Context& context, const WaitOptions& options) {
  // --timeout limits the whole wait; each request to a node keeps the usual limit.
  const Duration limit = context.limits.timeout;
  const TimePoint deadline = limit > Duration() ? context.clock.now() + limit : TimePoint::max();
  context.limits.timeout = Duration();
  PADDLE_TRY(std::vector<FoundJob> jobs, find_jobs(context, options));
  std::vector<Json> list;
  std::optional<Error> first;
  for (FoundJob& job : jobs) {
    const Status ended = wait_for_end(context, job.session, job.name, deadline);
    const bool is_late = context.clock.now() > deadline;
    const std::string state(state_after(context, ended, is_late));
    const int code = ended ? 0 : static_cast<int>(ended.error().code);
    list.push_back(Json::object({{"job", job.name},
                                 {"state", state},
                                 {"exit_code", state == "running" ? Json() : Json(code)},
                                 {"message", ended ? Json() : Json(ended.error().message)}}));
    if (!context.console.json()) context.console.result(fmt::format("{}: {}", job.name, state));
    if (ended) continue;
    if (first) {
      first->message += "\n" + ended.error().message;
    } else {
      first = ended.error();
    }
    if (context.interrupted()) break;
  }
  if (context.console.json()) context.console.json_line(Json::list(list));
  return first ? Status(*std::move(first)) : Status();
}

}  // namespace

Command wait_command() {
  return {"wait", "wait until jobs have ended; the exit code is that of the first that failed",
          "  paddlectl wait && paddlectl fetch\n"
          "  paddlectl wait --timeout 2h first second\n"
          "  paddlectl wait --json",
          [] { return invocation(wait_options, run_wait); }};
}

}  // namespace paddle::cli
