// A job that starts with the parameters of a snapshot: train --from DIR|JOB[:PASS].
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/context.h"
#include "cli/job/plan.h"

namespace paddle::cli {

// The snapshot that `from` names: a folder here, or one of a job of this cluster. Of a job it is
// used in place when it lies on trainer 0's node, or else fetched into `output`, to be pushed.
// kUsage names what is missing and the snapshots there are.
Result<StartSnapshot> find_start_snapshot(Context& context, const ClusterSpec& cluster,
                                          const std::string& from, std::size_t trainer_node,
                                          const std::string& output);

}  // namespace paddle::cli
