// Finds the first cause of a job's failure among the ends that followed from it.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

constexpr std::size_t kLastLinesShown = 15;
constexpr std::size_t kLinesOfKilled = 3;  // a log has nothing about a signal

// Null if none failed. A process that failed on its own comes before one that was stopped or lost a
// peer; among equals, the earliest. A pserver ends well when all its trainers have left.
const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes);
// Whether the process ended by an order or after a lost peer, and did not fail on its own. False
// for null.
bool is_consequence(const ProcessOnNode* failed);
// Whether an order to stop ended the job: its first failure is that order, or a consequence of it,
// such as the loss of a peer.
bool is_stopped_job(const std::vector<ProcessOnNode>& processes);
// The error names the process, its node and the cause that the process gave. Its code is the
// process's exit code if that is one of paddlectl's codes.
Error failure_error(const remote::ProcessStatus& failed, const std::string& node);
// The same with the process's last log lines, as lines_about() has them.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);
// The last of the log's lines that may say something about the failure: without the cause, which
// the error has, and without totals of passes. At most kLastLinesShown.
std::vector<std::string> lines_about(const remote::ProcessStatus& failed,
                                     std::vector<std::string> lines);

}  // namespace paddle::cli
