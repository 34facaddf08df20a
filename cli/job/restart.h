// Starts a job or one of its processes again, as `paddlectl restart` does.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// kUsage: the trainers of the job have all ended well.
Status check_not_done(ClusterSession& session, const std::string& job);

// Claims the job and starts one process of it again; waits for commands that are in the way.
// Returns a sentence that says what the process does now. kUsage: the job has no such process, none
// of the job's processes runs on its node, or another command refuses. kUnreachable: a node of the
// session does not answer.
Result<std::string> restart_process(Context& context, ClusterSession& session,
                                    const std::string& job, const std::string& name);

// Claims the job, lets its trainers save, ends all its processes and starts them again. Errors as
// above; if a process cannot be started, the others are ended.
Status restart_all(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
