// Stopping a job: cleanly with a snapshot, or at once.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// Time for trainers to finish their batch, and for trainer 0 to save.
constexpr auto kCleanStopDeadline = std::chrono::minutes(10);

// Asks every running trainer to finish its batch and save. Does not wait.
Status ask_job_to_stop(ClusterSession& session, const std::string& job);
// Waits until no trainer of the job runs: kUnreachable after kCleanStopDeadline, kInterrupted.
Status wait_for_trainers(Context& context, ClusterSession& session, const std::string& job);
// Ends every process of the job. A node that has nothing of ours is no error.
Status stop_job(ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
