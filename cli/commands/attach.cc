#include <fmt/format.h>

#include "cli/commands/job_end.h"
#include "cli/job/follow.h"
#include "cli/options/job_target.h"

namespace paddle::cli {
namespace {

struct AttachOptions {
  JobTarget target;
  std::string output = "output";
};

OptionList list_options(AttachOptions& options) {
  return {cluster_option(options.target.cluster), job_option(options.target),
          output_option(options.output)};
}

Status run(Context& context, const AttachOptions& options) {
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kRefused));
  auto& [cluster, session, job] = found;
  const std::string output = results_folder(context, options.output);
  auto followed = follow_job(context, session, job);
  if (followed) return finish_job(context, session, job, output);
  Error error = std::move(followed).error();
  if (error.code == Errc::kResumable) {
    PADDLE_TRY_STATUS(finish_job(context, session, job, output, "stopped"));
    return error;
  }
  if (error.code == Errc::kInterrupted) {
    error.message = fmt::format("detached from {}; it runs on", job);
    return error;
  }
  if (session.unreachable() > 0) return error;
  return stop_after(context, session, job, std::move(error));
}

}  // namespace

Command attach_command() {
  return {"attach", "follow a running job and fetch its results when it ends",
          "  paddlectl attach\n"
          "  paddlectl attach --job word2vec-20260101-120000",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
