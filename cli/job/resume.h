// Resuming a job that ended before its last pass.
#pragma once

#include <cstdint>
#include <string>

#include "cli/cluster/context.h"
#include "cli/job/plan.h"

namespace paddle::cli {

struct PreviousRun {
  std::string job;
  std::uint32_t trainers = 0, pservers = 0;  // 0: the nodes have no record of them
};

// The job asked for, or the latest. A job asked for may be gone from the nodes, with its results
// here. kUsage when it still runs, or when there is none.
Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked);

// Makes sure that trainer 0's node has a snapshot, pushing the newest one of the other nodes or of
// `output` if it has none, and removes the records of ended processes. kUsage when there is no
// snapshot.
Status prepare_to_resume(Context& context, const ClusterSpec& cluster,
                         const std::vector<std::size_t>& nodes, const JobPlan& plan,
                         const std::string& output);

}  // namespace paddle::cli
