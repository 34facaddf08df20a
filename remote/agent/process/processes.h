// Start, status, stop and restart of supervised processes; teardown of all our processes and files.
#pragma once

#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

// Returns once the program runs, or the reason why it does not.
Status start_process(const Root& root, const wire::agent::ProcessSpec& spec);

// usage: adds the resource usage of running processes, which needs a walk through /proc.
Result<std::vector<wire::agent::ProcessStatus>> list_processes(const Root& root,
                                                               const std::string& job, bool usage);

constexpr Duration kGraceMax = std::chrono::minutes(10);
// Carries out a RestartRequest of agent.proto. kUsage for a name without a record, or a running
// process without restarts.
Status restart_processes(const Root& root, const wire::agent::RestartRequest& request);
// Sends SIGTERM, then SIGKILL after the grace, to the named processes of the job (no names: all)
// and their descendants. Returns when none is left; kResource when one cannot be ended.
Status stop_processes(const Root& root, const wire::agent::StopRequest& request);

// Kills the commands of [notify] of a removed job whose supervisors were killed.
void end_notices(const Root& root, const std::string& job);

// Processes of ours that belong to no running job (except agents and supervisors), and the folders
// of jobs that do not run.
Result<wire::agent::LeftoversReply> find_leftovers(const Root& root);

// Ends every process, then removes root (keep_data: except jobs/*/output).
Result<wire::agent::TeardownReply> teardown(const Root& root, bool keep_data);

}  // namespace paddle::agent
