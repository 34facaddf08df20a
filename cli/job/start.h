// Start of a job: its name and ports claimed, its files pushed, then pservers and trainers started.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/engines.h"
#include "cli/job/plan.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

// Claims the name on every node. A taken name is kUsage when the user `asked` for it; otherwise it
// gets a number.
Result<std::string> claim_new_name(Context& context, ClusterSession& session,
                                   const std::string& name, bool asked);
// For a job to resume. kUsage when it runs, or when another paddlectl is starting or ending it.
Status claim_old_name(Context& context, ClusterSession& session, const std::string& job);

// The plan on the first ports that no other job has; the nodes of its processes reserve them for
// this one. kResource names the node, the port and the program outside our jobs that holds it.
Result<JobPlan> claim_ports(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                            JobRequest request, const Placement& placement,
                            const Workspace& workspace);

// Releases all claims, once the job runs or has no use for them.
Status end_claims(ClusterSession& session);

// Pushes to each node the engines that run there, and its files of the workspace.
Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const JobEngines& engines);
// Writes a new secret for the job, starts pservers, if it has any, waits until each says that it is
// ready, then starts trainers.
// After an error some processes may be running, for stop_job to end.
Status start_job(Context& context, ClusterSession& session, const JobPlan& plan);
// Starts the processes of a job that has ended as they were, in the same order.
Status restart_job(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
