#include "cli/job/stop.h"

#include "cli/cluster/unknown_nodes.h"
#include "cli/commands/following.h"
#include "cli/commands/shared_options.h"

namespace paddle::cli {
namespace {

struct StopOptions {
  JobTarget target;
  bool now = false;
};

OptionList stop_options(StopOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          job_option(options.target),
          job_argument(options.target),
          {"--now", "end its processes immediately, without a snapshot", &options.now}};
}

Status run_stop(Context& context, const StopOptions& options) {
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kAllowed));
  auto& [cluster, session, job] = found;
  Status reached = session.all_well();
  PADDLE_TRY(const StoppedJob ended, save_and_end(context, session, job, options.now));
  context.console.result(Json::object({{"job", job}, {"stopped", ended.stopped}}), ended.text(job));
  if (!ended.is_done)
    context.console.note(
        next_step(context, session, job, context.directory + "/output", "resume with"));
  if (reached && ended.lost && ended.stopped > 0)
    return with_unknown_nodes(context, session, cluster, *ended.lost);
  return reached;
}

}  // namespace

Command stop_command() {
  return {"stop", "save a job where it is and end it; its files stay on the nodes",
          "  paddlectl stop\n"
          "  paddlectl stop --now --job word2vec-20260101-120000",
          [] { return invocation(stop_options, run_stop); }};
}

}  // namespace paddle::cli
