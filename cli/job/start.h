// From a plan whose name and ports are claimed to running processes: files pushed, pservers ready,
// trainers started.
#pragma once

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"

namespace paddle::cli {

// The engine and the workspace files on every node.
Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const remote::PushItem& engine);
// Writes the job's new secret, starts pservers, waits for their READY lines, starts trainers. After
// an error some may be running: stop_job of job_stop.h.
Status start_job(Context& context, ClusterSession& session, const JobPlan& plan);
// The same with the processes of a job that has ended, as they were.
Status restart_job(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
