// Start of a planned job whose name and ports are claimed: push, pservers, trainers.
#pragma once

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"

namespace paddle::cli {

// Pushes the engine and each node's files of the workspace.
Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const remote::PushItem& engine);
// Writes a new secret for the job, starts pservers, waits until each says that it is ready, then
// starts trainers.
// After an error some processes may be running, for stop_job to end.
Status start_job(Context& context, ClusterSession& session, const JobPlan& plan);
// Starts the processes of a job that has ended as they were, in the same order.
Status restart_job(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
