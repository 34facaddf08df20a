// Runs the trials of a sweep as jobs, so many at a time, until all have ended.
//
// INVARIANT: only the nodes know the state of a sweep. Each trial is found by its job's name, so a
// command that was killed is continued by the same command: trials that ended are not run again,
// those that run are followed, the rest is started. A trial's settings depend on its number alone.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/sweep/halving.h"
#include "cli/sweep/sweep_file.h"
#include "cli/sweep/trial.h"

namespace paddle::cli {

struct SweepPlan {
  std::string figure;  // not ""
  PassValues::Source source = PassValues::Source::kTests;
  std::string output;  // folder for results, absolute
  // The settings that all trials have. A trial adds its own ones after `overrides`, which are as
  // typed. `data` is empty if the trials have different data.
  JobSettings settings;
};

// Starts the trial's job, or continues it if Trial::is_resumed, without following it.
using StartTrial = std::function<Status(const Trial&)>;

class SweepRun {
 public:
  // `session`: the nodes of the trials, all reached.
  SweepRun(Context& context, ClusterSession& session, const Sweep& sweep, SweepPlan plan,
           std::vector<Trial> trials, StartTrial start);

  // Returns when all trials have ended. kResumable: Ctrl-C, and the running ones have saved and
  // stopped. kInterrupted: another Ctrl-C ended them at once; or the nodes were torn down.
  // kUsage: a job on the nodes has the name of a trial, but is no trial of this sweep, or differs
  // from it. kUnreachable, kAuth, kVersion, kResource: no
  // trial can be started; those that run go on.
  Status run();

  std::vector<Trial>& trials() { return trials_; }
  // Reads the trial's logs and metrics from its output folder, after a fetch if that lacks some.
  Status collect(Trial& trial);

 private:
  // Finds the trials on the nodes.
  Status find_trials();
  // The trial's job was found on the nodes; see check_same_trial().
  Status check_same(const Trial& trial, const std::vector<ProcessOnNode>& processes);
  // Asks all nodes once. kUnreachable: a node has been silent for too long.
  Status look();
  Status check_nodes();
  void look_at(Trial& trial, const std::vector<ProcessOnNode>& processes);
  void read_metrics_of(Trial& trial, const std::vector<ProcessOnNode>& processes);
  void judge_values();
  void ask_to_stop(Trial& trial);
  void show_stall(Trial& trial, const std::vector<ProcessOnNode>& processes);
  void finish(Trial& trial, const std::vector<ProcessOnNode>& processes);
  void announce(const Trial& trial);
  Status start_next();
  // Whether another command has started or ended the trial meanwhile: it is then followed, not
  // started. Also true while a node does not answer. kUsage: see check_same_trial().
  Result<bool> is_begun(Trial& trial);
  Status start(Trial& trial);
  Status stop_all();
  void show_progress();
  std::size_t count(TrialState state) const;

  // A value of a trial that the rule has not seen yet.
  struct NewValue {
    PassValue value;
    std::size_t trial = 0;
  };

  Context& context_;
  ClusterSession& session_;
  const Sweep& sweep_;
  SweepPlan plan_;
  std::vector<Trial> trials_;
  StartTrial start_;
  Halving halving_;
  std::vector<NewValue> new_values_;
  std::map<std::size_t, std::string> progress_;  // of running trials, as shown
  std::optional<TimePoint> silent_since_;
  std::optional<TimePoint> no_start_before_;
  bool has_started_ = false;  // a trial, in this command
  bool is_stopping_ = false;
};

}  // namespace paddle::cli
