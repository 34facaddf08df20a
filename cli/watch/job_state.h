// The state of a whole job, as lists of jobs show it.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

// The nodes of the cluster that were not seen.
struct UnseenNodes {
  bool any = false;
  bool only_left_out = false;  // by `up --any`; a job's other trainers show how it ended
};

// "running", "starting", "done", "stopped", "failed: trainer-1 exited with code 6", "not started",
// or "unknown". all_seen: see JobSize.
std::string job_state(const std::vector<ProcessOnNode>& processes, const UnseenNodes& unseen,
                      bool all_seen);

// The processes that make no progress.
std::vector<std::string> stalled_processes(const std::vector<ProcessOnNode>& processes);

}  // namespace paddle::cli
