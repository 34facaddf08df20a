// States and order of a job's processes, and the first cause of its failure.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "remote/agent_client.h"

namespace paddle::cli {

bool is_pserver(const remote::ProcessStatus& status);
bool is_running(const remote::ProcessStatus& status);
bool is_running_trainer(const ProcessOnNode& process);
// Exited with 0.
bool ended_well(const remote::ProcessStatus& status);
// Stopped as asked and saved, so that the job can be resumed.
bool is_resumable(const remote::ProcessStatus& status);
// "running", "exited with code 6", "killed by signal 9 (Killed)", ...
std::string describe_state(const remote::ProcessStatus& status);

// "was killed by signal 9 (Killed); restarted (1 of 2)".
std::string describe(const remote::Restart& restart, std::uint32_t allowed);

// Pservers before trainers, "pserver-2" before "pserver-10".
bool comes_before(const remote::ProcessStatus& a, const remote::ProcessStatus& b);

constexpr std::size_t kLastLinesShown = 15;
constexpr std::size_t kLinesOfKilled = 3;  // a log knows nothing of a signal

// Null when none failed. A process that failed by itself comes before one that was stopped and one
// that lost a peer; among these the earliest. A pserver ends well when all its trainers have left.
const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes);
// An end by order, or after a lost peer: of a process that did not fail by itself. False for null.
bool is_consequence(const ProcessOnNode* failed);
// Names the process, its node and its last log lines; the code is its exit code where that is one
// of ours.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);

}  // namespace paddle::cli
