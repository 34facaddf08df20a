#include <algorithm>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/job/start.h"
#include "cli/job/stop.h"

namespace paddle::cli {
namespace {

Status restart_process(Context& context, ClusterSession& session, const std::string& job,
                       const std::string& name) {
  const auto processes = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  const auto found =
      std::ranges::find(processes, name, [](const ProcessOnNode& p) { return p.status.name; });
  if (found == processes.end()) {
    return Error{Errc::kUsage, fmt::format("job {} has no process '{}'", job, name),
                 "paddlectl status names them"};
  }
  Member& member = session.members()[found->member];
  PADDLE_TRY_STATUS(member.client->restart(job, {name}));
  context.console.note(fmt::format("{} on {} is started again", name, member.spec.name));
  return {};
}

}  // namespace

Status run_restart(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  for (Member& member : session.members()) {
    if (member.absent) member.error.reset();
  }
  PADDLE_TRY_STATUS(session.all_well());
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  if (!options.process.empty()) {
    PADDLE_TRY_STATUS(restart_process(context, session, job, options.process));
  } else {
    PADDLE_TRY_STATUS(ask_job_to_stop(session, job));
    PADDLE_TRY_STATUS(wait_for_trainers(context, session, job));
    PADDLE_TRY_STATUS(stop_job(session, job));
    PADDLE_TRY_STATUS(restart_job(context, session, job));
  }
  if (context.console.json()) {
    context.console.json_line(Json::object({{"job", job}, {"state", "running"}}));
  } else {
    context.console.result(
        fmt::format("{} goes on from its last snapshot; follow it: paddlectl attach", job));
  }
  return {};
}

}  // namespace paddle::cli
