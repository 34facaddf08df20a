#include "cli/options/job_target.h"

#include "cli/cluster/current_cluster.h"
#include "cli/cluster/node_selection.h"

namespace paddle::cli {

Option job_option(JobTarget& target) {
  return {"--job", "the job; default: the latest", &target.job};
}

Option job_argument(JobTarget& target) {
  return {"job", "the job; default: the latest", &target.job};
}

Result<FoundJob> find_job(Context& context, const JobTarget& target, Missing missing) {
  PADDLE_TRY(ClusterSpec cluster, choose_cluster(context.directory, target.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, target.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  if (missing == Missing::kRefusedUnlessAbsent) session.forgive_absent();
  if (missing != Missing::kAllowed) PADDLE_TRY_STATUS(session.all_well());
  PADDLE_TRY(std::string job, choose_job(session, target.job));
  return FoundJob{std::move(cluster), std::move(session), std::move(job)};
}

}  // namespace paddle::cli
