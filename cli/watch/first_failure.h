// The first cause of a job's failure, told from the ends that followed it.
#pragma once

#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

constexpr std::size_t kLastLinesShown = 15;
constexpr std::size_t kLinesOfKilled = 3;  // a log knows nothing of a signal

// Null when none failed. A process that failed by itself comes before one that was stopped and one
// that lost a peer; among these the earliest. A pserver ends well when all its trainers have left.
const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes);
// An end by order, or after a lost peer: of a process that did not fail by itself. False for null.
bool is_consequence(const ProcessOnNode* failed);
// Whether an order to stop ended the job: its first failure is that order, or follows from it as
// the loss of a peer does.
bool is_stopped_job(const std::vector<ProcessOnNode>& processes);
// Names the process, its node and its last log lines; the code is its exit code where that is one
// of ours.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);

}  // namespace paddle::cli
