// A job that ended before its time, and what it takes to go on with it.
#pragma once

#include <cstdint>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"

namespace paddle::cli {

struct PreviousRun {
  std::string job;
  std::uint32_t trainers = 0, pservers = 0;  // 0: nothing on the nodes tells
};

// The job asked for, or the latest. It need not be on the nodes any more, its results may be here.
// kUsage when it still runs, or when there is none.
Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::string& asked);

// Clears the way for another run of the plan's job: on trainer 0's node lies a snapshot (of the
// earlier run there, on another node, or in `output`), and no node has records of processes that
// ended. kUsage when there is no snapshot.
Status prepare_to_resume(Context& context, const ClusterSpec& cluster, const JobPlan& plan,
                         const std::string& output);

}  // namespace paddle::cli
