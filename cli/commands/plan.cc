#include "cli/commands/plan.h"

#include "cli/cluster/current_cluster.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {

OptionList plan_options(PlanOptions& options) {
  return {
      cluster_option(options.cluster),
      workspace_argument(options.source.workspace),
      {"--trainers",
       "number of trainers; default: one on each node with the role, or its `capacity`",
       &options.trainers, "", 1, kProcessesMax},
      {"--pservers", "number of parameter servers; default: one on each node with the role",
       &options.pservers, "", 1, kProcessesMax},
      overrides_option(options.source.overrides),
  };
}

Status run_plan(Context& context, const PlanOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const Placement placement, place_job(cluster, options.trainers, options.pservers));
  PADDLE_TRY(const Workspace workspace, check_job(context, options.source, placement));
  PADDLE_TRY(const std::string text,
             describe_placement(context, options.source, cluster, placement, workspace));
  context.console.raw(text);
  return {};
}

Command plan_command() {
  return {"plan", "print which block of which parameter would go to which node and port",
          "  paddlectl plan --pservers 2 templates/word2vec\n"
          "  paddlectl plan --set strategy.placement=size_balanced --json",
          [] { return invocation(plan_options, run_plan); }};
}

}  // namespace paddle::cli
