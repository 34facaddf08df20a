// What can be said about a job before anything is pushed or started.
#pragma once

#include <string>

#include "cli/cluster/context.h"
#include "cli/commands/commands.h"
#include "cli/job/plan.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

// The workspace that the options name, read and sorted out for so many trainers. Notes trainers
// that will have nothing to do. Errors are those of read_job and scan_workspace; where the data is
// not there yet and the workspace has a script `prepare`, the hint names it.
Result<Workspace> check_job(Context& context, const CommandOptions& options,
                            const Placement& placement);

// The engine's plan, made here by the program that would be pushed: it builds the network, and says
// which port would hold what. kUsage for a network that cannot be built; kResource and kFailed
// when this machine cannot run the program.
Result<std::string> describe_placement(Context& context, const CommandOptions& options,
                                       const ClusterSpec& cluster, const Placement& placement,
                                       const Workspace& workspace);

}  // namespace paddle::cli
