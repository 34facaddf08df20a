// A running job followed from its nodes alone: progress, test results and its end.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// Returns when all trainers ended well. Errors: the first cause of a failure; kResumable when the
// trainers stopped as asked; kInterrupted after Ctrl-C; kUnreachable when a node stays silent,
// while the job goes on there. Stops nothing.
Status follow_job(Context& context, ClusterSession& session, const std::string& job);
// Handles Ctrl-C for a job that ends with this terminal: asks it to stop and save, and follows it
// to that end. Errors as of follow_job; kInterrupted now is another Ctrl-C, or kCleanStopDeadline.
Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
