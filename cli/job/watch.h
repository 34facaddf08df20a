// Follows a running job from its nodes alone: progress, test results, and the first cause when
// something dies.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/logs/metrics_line.h"
#include "cli/logs/reader.h"

namespace paddle::cli {

constexpr std::size_t kLastLinesShown = 15;

bool is_pserver(const remote::ProcessStatus& status);
// "running", "exited 6", "killed by signal 9 (Killed)", ...
std::string describe_state(const remote::ProcessStatus& status);

// The process that failed by itself, or else was stopped, or else lost a peer; the earliest of its
// kind. Null when none failed. A pserver ends well when all its trainers have left.
const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes);
// Names it, its node and its last log lines; the code is the process's own where it has a meaning.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);

// Returns when all trainers ended well. Errors: the first cause; kResumable when they stopped as
// asked, to go on some day; kInterrupted after Ctrl-C; kUnreachable when a node stays silent (the
// job goes on there). Stops nothing.
Status follow_job(Context& context, ClusterSession& session, const std::string& job);
// What Ctrl-C means for a job that ends with this terminal: asks it to stop and to save, and
// follows it to that end. As follow_job, where kInterrupted now is another Ctrl-C, or that it took
// longer than kCleanStopDeadline.
Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
