// Starts a job with the parameters of a snapshot: train --from DIR|JOB[:PASS].
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/context.h"
#include "cli/job/plan.h"

namespace paddle::cli {

// The snapshot that `from` names: a folder here, or a snapshot of a job of this cluster. A job's
// snapshot is used in place if it is on trainer 0's node; otherwise it is fetched into `output`, to
// be pushed. A user's own program may write its checkpoints as it likes. kUsage: names what is
// missing, and the snapshots that exist.
Result<StartSnapshot> find_start_snapshot(Context& context, const ClusterSpec& cluster,
                                          const std::string& from, std::size_t trainer_node,
                                          const std::string& output, bool is_own_program);

}  // namespace paddle::cli
