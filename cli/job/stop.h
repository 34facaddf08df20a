// Saves and ends a job, as `paddlectl stop` does.
#pragma once

#include <optional>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct StoppedJob {
  std::size_t stopped = 0;    // processes that ran
  bool is_joined = false;     // another paddlectl stopped it at the same time
  bool is_done = false;       // its trainers have ended well
  std::optional<Error> lost;  // nodes that the job had lost before

  // "job-1: 3 processes stopped; logs and snapshots stay on the nodes".
  std::string text(const std::string& job) const;
};

// Claims the job, lets its trainers save, and ends all its processes; `now`: without saving. Waits
// for commands that are in the way. kUsage: another command refuses. kFailed: the job was not
// saved, or a process still runs.
Result<StoppedJob> save_and_end(Context& context, ClusterSession& session, const std::string& job,
                                bool now);

}  // namespace paddle::cli
