// Finds the first cause of a job's failure among the ends that followed from it.
#pragma once

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
// The error names the process, its node and its last log lines, without totals of passes. Its code
// is the process's exit code if that is one of paddlectl's codes.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);

}  // namespace paddle::cli
