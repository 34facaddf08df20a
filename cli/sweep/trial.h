// A trial of a sweep: an ordinary job, and what its nodes know of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/job/settings.h"
#include "cli/report/comparison.h"
#include "cli/sweep/pass_values.h"
#include "cli/watch/log_reader.h"

namespace paddle::cli {

enum class TrialState : std::uint8_t {
  kWaiting,  // not started, or its start was broken off
  kRunning,
  kDone,
  kStopped,  // before its end, by Ctrl-C or another command
  kPruned,   // stopped by the rule of halving
  kFailed
};
std::string_view name_of(TrialState state);

struct Trial {
  std::size_t number = 0;  // from 0
  std::string job;
  std::vector<std::string> settings;  // as --set takes them
  std::uint64_t passes = 0;           // to train; 0: not known

  TrialState state = TrialState::kWaiting;
  bool is_resumed = false;  // a start continues it from its last snapshot
  bool is_found = false;    // on the nodes when this command began, and not yet seen to run
  bool is_pruned = false;   // the rule has decided; it may still be saving
  bool is_on_nodes = true;  // not so if it failed before its start
  bool was_stalled = false;
  std::optional<TimePoint> asked_at;  // to stop
  // As seen last: the state follows once two looks in a row agree.
  TrialState seen = TrialState::kRunning;
  std::string why;  // the cause of a failure, in one line
  std::optional<LogReader> metrics;
  std::optional<PassValues> values;
  std::optional<ComparedJob> result;

  bool has_ended() const { return state != TrialState::kWaiting && state != TrialState::kRunning; }
  // "optimizer.learning_rate=0.1 train.batch_size=32"
  std::string text() const;
};

// The state by the job's processes; kWaiting: there are none, or their start was broken off.
TrialState trial_state(const ClusterSession& session, const std::vector<ProcessOnNode>& processes);

// Null: the job has no trainer 0 on a node that answers.
const ProcessOnNode* leader_among(const std::vector<ProcessOnNode>& processes);

// Whether halving has ended this run of the trial, as a file beside the job on trainer 0's node
// has it.
bool is_marked_pruned(ClusterSession& session, const ProcessOnNode& leader);
Status mark_pruned(ClusterSession& session, const ProcessOnNode& leader);

// kUsage: the job on the nodes is no trial of this sweep (it lacks the tag), or was started with
// other settings: the first one that differs is named. `process`: any of the job. `now`: with which
// the sweep would start it; without `data`, data is not compared. What does not change results may
// differ: the workspace's place, --on, --restarts and --stall-restarts-after. kUnreachable: the
// node is lost.
Status check_same_trial(ClusterSession& session, const ProcessOnNode& process,
                        const std::string& tag, JobSettings now);

}  // namespace paddle::cli
