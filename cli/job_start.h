// From a plan to running processes: files and secret pushed, ports checked, pservers ready,
// trainers started.
#pragma once

#include "cli/cluster_session.h"
#include "cli/context.h"
#include "cli/job_plan.h"

namespace paddle::cli {

// A running job of this cluster that has a port of the plan, or "": all are free. kResource names
// the node, the port and the stranger who holds it.
Result<std::string> job_on_ports(ClusterSession& session, const ClusterSpec& cluster,
                                 const JobPlan& plan);
// The engine, the workspace files and the job's new secret on every node.
Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const remote::PushItem& engine);
// Starts pservers, waits for their READY lines, starts trainers. After an error some may be
// running: stop_job of job_stop.h.
Status start_job(Context& context, ClusterSession& session, const JobPlan& plan);
// The same with the processes of a job that has ended, as they were.
Status restart_job(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
