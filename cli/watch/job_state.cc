#include "cli/watch/job_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/watch/first_failure.h"
#include "cli/watch/pace.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {

std::string job_state(const std::vector<ProcessOnNode>& processes, const UnseenNodes& unseen,
                      bool all_seen) {
  const bool has_trainer = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return !is_pserver(process.status); });
  const bool is_claimed =
      std::ranges::any_of(processes, [](const ProcessOnNode& p) { return p.status.claimed; });
  const bool runs = std::ranges::any_of(processes, is_running, &ProcessOnNode::status);
  if (runs && (has_trainer || unseen.any)) return "running";
  if (runs && is_claimed) return "starting";
  const bool is_known = all_seen && !processes.empty();
  if (unseen.any && !is_known && !(unseen.only_left_out && has_trainer)) return "unknown";
  if (processes.empty()) return "not started";
  if (const ProcessOnNode* const failed = first_failure(processes)) {
    return is_stopped_job(processes)
               ? "stopped"
               : fmt::format("failed: {} {}", failed->status.name, describe_state(failed->status));
  }
  // Without a trainer the start was broken off, however the pservers ended.
  if (!has_trainer) return "not started";
  const bool resumable = std::ranges::any_of(processes, is_resumable, &ProcessOnNode::status);
  return resumable ? "stopped" : "done";
}

std::vector<std::string> stalled_processes(const std::vector<ProcessOnNode>& processes) {
  std::vector<std::string> names;
  for (const auto& [name, pace] : paces_of(processes)) {
    if (pace.pace == Pace::kStalled) names.push_back(name);
  }
  return names;
}

}  // namespace paddle::cli
