// Preparation of a node for a job's trainers: [trainer] requirements, a list of Python packages,
// and [trainer] setup, a program.
#pragma once

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

// Names the setup's program and the contents of the workspace's files among its arguments.
Result<std::string> setup_hash(const Workspace& workspace);

// Makes a virtual environment with the packages on every node with a trainer that has none of this
// content. Then runs the setup there where it has not succeeded for its hash; it
// may fill $SETUP_DIR, which jobs keep and the workspace has as .setup. Its output is in the job's
// setup.log on the node. kFailed names the node and has the last lines.
Status run_setup(Context& context, ClusterSession& session, const JobPlan& plan,
                 const Workspace& workspace);

}  // namespace paddle::cli
