#include "cli/job/stop.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"

namespace paddle::cli {

Status run_stop(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  const Status reached = session.all_well();
  const auto running = [](const ProcessOnNode& process) {
    return process.status.state == remote::ProcessState::kRunning;
  };
  const auto before = session.processes(job);
  if (!options.now) {
    // A node out of reach is told about by stop_job; its trainers hear of it from the others.
    (void)ask_job_to_stop(session, job);
    PADDLE_TRY_STATUS(wait_for_trainers(context, session, job));
  }
  PADDLE_TRY_STATUS(stop_job(session, job));
  const auto after = session.processes(job);
  for (const ProcessOnNode& process : after) {
    if (!running(process)) continue;
    return Error{Errc::kFailed,
                 fmt::format("{} on {} is still running", process.status.name,
                             session.members()[process.member].spec.name),
                 ""};
  }
  const auto stopped = static_cast<std::size_t>(std::ranges::count_if(before, running));
  if (context.console.json()) {
    context.console.json_line(Json::object({{"job", job}, {"stopped", stopped}}));
  } else {
    context.console.result(fmt::format("{}: {} stopped; logs and snapshots stay on the nodes", job,
                                       counted(stopped, "process")));
  }
  return reached;
}

}  // namespace paddle::cli
