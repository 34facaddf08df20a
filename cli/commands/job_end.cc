#include "cli/commands/job_end.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/job/follow.h"
#include "cli/job/results.h"
#include "cli/job/stop.h"
#include "cli/report/report.h"

namespace paddle::cli {

std::string results_folder(const Context& context, const std::string& output) {
  return output.starts_with('/') ? output : context.directory + "/" + output;
}

Status finish_job(Context& context, ClusterSession& session, const std::string& job,
                  const std::string& output, const std::string& state) {
  PADDLE_TRY_STATUS(stop_job(session, job));
  PADDLE_TRY(const FetchStats stats, fetch_results(session, job, output));
  add_report(context, session, job, output);
  const std::string folder = shown_path(context, (std::filesystem::path(output) / job).string());
  context.console.result(
      Json::object({{"job", job}, {"state", state}, {"files", stats.files}, {"output", folder}}),
      fmt::format("{}: {} files in {}", state, stats.files, folder));
  return {};
}

Error stop_after(Context& context, ClusterSession& session, const std::string& job, Error error) {
  context.console.end_progress();
  context.console.note("stopping the rest of the job");
  session.reconnect(context);
  auto stopped = stop_job(session, job);
  if (!stopped && stopped.error().code == Errc::kUnreachable) {  // found lost only now
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

}  // namespace paddle::cli
