// [trainer] setup: a program that prepares a node for a job's trainers, like making a venv.
#pragma once

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

// Names the setup's program and the contents of the workspace's files among its arguments.
Result<std::string> setup_hash(const Workspace& workspace);

// Runs the setup on every node with a trainer where it has not succeeded for this hash; there it
// may fill $SETUP_DIR, which jobs keep and the workspace has as .setup. Its output is in the job's
// setup.log on the node. kFailed names the node and has the last lines.
Status run_setup(Context& context, ClusterSession& session, const JobPlan& plan,
                 const Workspace& workspace);

}  // namespace paddle::cli
