// Starts a job: claims its name and ports, pushes its files, then starts pservers and trainers.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/engines.h"
#include "cli/job/plan.h"
#include "cli/job/workspace.h"

namespace paddle::cli {

// Claims the name on every node. If the name is taken: kUsage if the user `asked` for it, else a
// number is added to it.
Result<std::string> claim_new_name(Context& context, ClusterSession& session,
                                   const std::string& name, bool asked);
// Claims the name of a job to resume. kUsage: the job runs, or another paddlectl starts or ends it.
Status claim_old_name(Context& context, ClusterSession& session, const std::string& job);

// Plans the job on the first ports that no other job has. The nodes of its processes reserve the
// ports for this job. kResource: names the node, the port and the program outside paddlectl's jobs
// that holds it.
Result<JobPlan> claim_ports(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                            JobRequest request, const Placement& placement,
                            const Workspace& workspace);

// Releases all claims, when the job runs or no longer needs them.
Status end_claims(ClusterSession& session);

// Pushes to each node the engines that run there and the node's files of the workspace.
Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const JobEngines& engines);
// Writes a new secret for the job, starts pservers (if it has any), waits until each reports that
// it is ready, then starts trainers. After an error some processes may still run; stop_job ends
// them.
Status start_job(Context& context, ClusterSession& session, const JobPlan& plan);
// Starts the processes of an ended job with their former specifications, in the same order.
Status restart_job(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
