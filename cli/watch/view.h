// A job as its nodes show it now: processes, their resources and their newest metrics, and the
// trainers that are well below their peers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/logs/metrics_line.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/pace.h"
#include "cli/watch/progress.h"

namespace paddle::cli {

// A trainer is slow when its rate is below kSlowRatio of the median of the others. Trainers wait
// for each other, and one with less data looks slow by the wall clock, so their rate while not
// waiting counts. One that waits for more than 1 - kBusyRatioMin of its time delays no other, and
// is slow only if it is by the wall clock too. That clock alone counts where not every trainer
// tells the other rate.
constexpr double kSlowRatio = 0.7;
constexpr double kBusyRatioMin = 0.5;

struct TrainerRate {
  std::string node, role;
  std::optional<double> wall, busy;  // examples/s: in all, and while not waiting for others
};

struct SlowTrainer {
  std::string node, role;
  double rate = 0;    // examples/s
  double median = 0;  // of the other trainers
  bool busy = false;  // both are while not waiting
};
std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerRate>& trainers);

// "trainer-3 on n-2 is slow: 410 examples/s, 38 % of the others' median 1080"
std::string describe(const SlowTrainer& slow);

struct ProcessView {
  std::string node;
  remote::ProcessStatus status;
  std::optional<MetricsLine> last;  // of a trainer: the newest log point or end of a pass
  std::optional<MetricsLine> last_test;
  std::optional<std::uint64_t> saved_pass;     // the newest, from 0, if the latest is not saved
  std::map<std::uint64_t, MetricsLine> ports;  // of a pserver: the newest line of each port
  std::optional<double> examples_per_second;   // at its last log point
  // By the wall clock, and while not waiting for others: as it reports every second, or else the
  // medians of its last log points.
  std::optional<double> usual_rate, usual_busy_rate;
  std::optional<std::int64_t> heard_ms_ago;  // age of its newest report, line of metrics or log
  std::optional<double> received_per_second, sent_per_second;  // since the last look; none before
  std::optional<double> cores;  // in use, since the last look or since its start
  ProcessPace pace;
  std::optional<remote::Progress> progress;  // as it reports, or else as its metrics tell

  // "stalled 2m42s", "no sign of life for 4.2s", "waits for trainer-1", "testing", "silent for
  // 3m20s"; else of describe_state.
  std::string state_text() const;
  // Examples a second; 0 while it is stalled or waits.
  std::optional<double> rate() const;
};

// Of the running trainers; none while any of them hangs or waits for one that does.
std::vector<SlowTrainer> slow_trainers(const std::vector<ProcessView>& processes);

class JobView {
 public:
  explicit JobView(std::string job) : job_(std::move(job)) {}

  // Asks all nodes. A node that fails keeps its error and shows no processes.
  void look(Context& context, ClusterSession& session);

  const std::string& job() const { return job_; }
  // Pservers, then trainers, each in order of rank.
  const std::vector<ProcessView>& processes() const { return processes_; }
  bool any_running() const;
  // Of the running trainers; nothing before the first report.
  std::optional<JobProgress> progress() const;
  std::optional<std::int64_t> left_ms() const;
  const CostTrail& trail() const { return trail_; }
  // Lines about the processes that hang and those that wait for them.
  std::vector<std::string> stalls() const;
  // The newest cost of trainer 0, where that diverges.
  std::optional<double> diverged_to() const { return diverged_to_; }
  const std::optional<BrokenStart>& broken_start() const { return broken_start_; }
  // Nodes that the job has lost, or its processes that no node of the cluster file has.
  const std::optional<Error>& loss() const { return loss_; }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  struct LastLook {
    remote::Usage usage;
    std::int64_t unix_ms = 0;
  };
  ProcessView view_of(const ProcessOnNode& process, const std::string& node,
                      const std::optional<NodeLook>& look);
  void watch_cost(const std::vector<MetricsLine>& lines, bool reports);
  void take_history(const std::vector<MetricsLine>& lines,
                    const std::optional<remote::Progress>& now, std::int64_t started_unix_ms);

  std::string job_;
  std::vector<ProcessView> processes_;
  std::optional<BrokenStart> broken_start_;
  std::optional<Error> loss_;
  std::vector<std::string> missing_;  // processes, with loss_
  ProcessPlaces places_;              // from look to look
  std::optional<double> diverged_to_;
  CostTrail trail_;  // of the newest metrics of trainer 0
  TimeLeft left_;    // likewise, from look to look
  std::int64_t history_until_ms_ = 0;
  std::map<std::string, LastLook> last_;  // by process name
};

// Variables about GPUs that the trainers of a job got, and who set them.
struct GpuVariable {
  std::string name, value;
  remote::VariableSource source = remote::VariableSource::kPaddlectl;
  std::vector<std::string> trainers;  // those with this value
};

// By name. None for a job without GPUs: ours for NCCL, which each program of the user's own gets,
// are then not worth telling.
std::vector<GpuVariable> gpu_variables(const std::vector<ProcessView>& processes);

// "paddlectl", "--env", "cluster file" or "login environment".
std::string_view source_text(remote::VariableSource source);

}  // namespace paddle::cli
