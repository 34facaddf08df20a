// The end of a job that somebody asks for: in good order, or at once.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// What a trainer gets to come to the end of its batch, and trainer 0 to save.
constexpr auto kCleanStopDeadline = std::chrono::minutes(10);

// Every trainer that runs is asked to finish its batch and save; waits for none.
Status ask_job_to_stop(ClusterSession& session, const std::string& job);
// Waits until no trainer of the job runs: kUnreachable after kCleanStopDeadline, kInterrupted.
Status wait_for_trainers(Context& context, ClusterSession& session, const std::string& job);
// Ends every process of the job; the nodes it is not on are well.
Status stop_job(ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
