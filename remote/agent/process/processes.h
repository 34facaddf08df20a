// Starting and ending supervised processes, and ending everything of ours.
#pragma once

#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// Returns once the program runs, or says why it does not.
Status start_process(const Root& root, const wire::agent::ProcessSpec& spec);

// usage: of the running ones too, which costs a walk through /proc.
Result<std::vector<wire::agent::ProcessStatus>> list_processes(const Root& root,
                                                               const std::string& job, bool usage);

constexpr Duration kGraceMax = std::chrono::minutes(10);
// RestartRequest of agent.proto. kUsage for a name without a record, or one that runs and has no
// restarts.
Status restart_processes(const Root& root, const wire::agent::RestartRequest& request);
// SIGTERM, then SIGKILL after grace, to the named processes of the job and all they started; names
// empty: all of the job. Returns when none is left; kResource when one cannot be ended.
Status stop_processes(const Root& root, const wire::agent::StopRequest& request);

// Processes of ours without a job that runs (neither agents nor supervisors), and folders of such
// jobs.
Result<wire::agent::LeftoversReply> find_leftovers(const Root& root);

// Ends every process, then removes root (keep_data: all but jobs/*/output).
Result<wire::agent::TeardownReply> teardown(const Root& root, bool keep_data);

}  // namespace paddle::agent
