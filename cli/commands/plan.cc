#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/job/check.h"

namespace paddle::cli {

Status run_plan(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const Placement placement, place_job(cluster, options.trainers, options.pservers));
  PADDLE_TRY(const Workspace workspace,
             check_job(context, {options.workspace, options.overrides}, placement));
  PADDLE_TRY(const std::string text,
             describe_placement(context, {options.workspace, options.overrides}, cluster, placement,
                                workspace));
  context.console.raw(text);
  return {};
}

}  // namespace paddle::cli
