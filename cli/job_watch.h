// Follows a running job from its nodes alone: progress, test results, and the first cause when
// something dies.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cluster_session.h"
#include "cli/context.h"
#include "cli/log_reader.h"

namespace paddle::cli {

constexpr std::size_t kLastLinesShown = 15;

// The numbers of one line of metrics.jsonl.
struct MetricsPoint {
  bool test = false;
  std::uint64_t pass = 0, batch = 0, samples = 0;
  double cost = 0;
  std::optional<double> examples_per_second;
  std::vector<std::pair<std::string_view, double>> values;  // of the evaluators
};
std::optional<MetricsPoint> parse_metrics(std::string_view line);
std::string describe(const MetricsPoint& point);

bool is_pserver(const remote::ProcessStatus& status);
// "jobs/j/node_0/train-1.log" -> "jobs/j/node_0/metrics-1.jsonl".
std::string metrics_path(const std::string& train_log);
// "running", "exited 6", "killed by signal 9 (Killed)", ...
std::string describe_state(const remote::ProcessStatus& status);

// The process that failed by itself, or else was stopped, or else lost a peer; the earliest of its
// kind. Null when none failed. A pserver ends well when all its trainers have left.
const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes);
// Names it, its node and its last log lines; the code is the process's own where it has a meaning.
Error failure_error(ClusterSession& session, const ProcessOnNode& failed);

// Returns when all trainers ended well. Errors: the first cause; kInterrupted after Ctrl-C;
// kUnreachable when a node stays silent (the job goes on there). Stops nothing.
Status follow_job(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
