// Prepares a node for a job's trainers: [trainer] requirements, a list of Python packages, and
// [trainer] setup, a program.
#pragma once

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/job/workspace.h"

namespace paddle::cli {

// A hash of the setup's program, its arguments, and the contents of workspace files that are
// arguments.
Result<std::string> setup_hash(const Workspace& workspace);

// On every node with a trainer, makes a virtual environment with the packages, unless the node has
// one with this content. Then runs the setup program there, unless it has succeeded for its hash.
// The program may fill $SETUP_DIR, which stays for later jobs and is .setup in the workspace. Its
// output is in the job's setup.log on the node. kFailed: names the node, with the last lines of the
// log.
Status run_setup(Context& context, ClusterSession& session, const JobPlan& plan,
                 const Workspace& workspace);

}  // namespace paddle::cli
