// The first cause of a job's failure.
#pragma once

#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

constexpr std::size_t kLastLinesShown = 15;

// Null when none failed. A process that failed by itself comes before one that was stopped and one
// that lost a peer; among these the earliest. A pserver ends well when all its trainers have left.
const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes);
// Names the process, its node and its last log lines; the code is its exit code where that is one
// of ours.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);

}  // namespace paddle::cli
