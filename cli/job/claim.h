// What a job has for itself on its nodes while it is started, whoever else starts one: its name and
// its ports. Claims end with the session at the latest.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

// On every node. A name that nobody asked for is numbered when another job has it; else that is
// kUsage.
Result<std::string> claim_new_name(ClusterSession& session, const std::string& name, bool asked);
// kUsage when the job runs, or when somebody else starts it.
Status claim_old_name(ClusterSession& session, const std::string& job);

// The plan with the first blocks of ports that no other job has; each pserver's node keeps them
// for this one. kResource names the node, the port and the stranger who holds it.
Result<JobPlan> claim_ports(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                            JobRequest request, const Placement& placement,
                            const Workspace& workspace);

// The job runs: what is claimed is free for the next.
Status end_claims(ClusterSession& session);

}  // namespace paddle::cli
