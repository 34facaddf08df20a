// The current state of a job on its nodes: processes, their resources and newest metrics, and
// trainers that are much slower than the others.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/watch/metrics_line.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/pace.h"
#include "cli/watch/progress.h"

namespace paddle::cli {

// A trainer is slow if its rate is below kSlowRatio of the median of the others. Trainers wait for
// each other, and one with less data has a low rate by the wall clock, so the rate while not
// waiting counts. A trainer that waits for more than 1 - kBusyRatioMin of its time delays no other;
// it is slow only if it is also slow by the wall clock. If not all trainers report the rate while
// not waiting, only the wall clock counts.
constexpr double kSlowRatio = 0.7;
constexpr double kBusyRatioMin = 0.5;

// The lines of metrics that a view of the present needs of each process.
constexpr std::size_t kLinesLookedAt = 64;
constexpr std::uint64_t kBytesLookedAt = 16U << 10U;

struct TrainerRate {
  std::string node, role;
  std::optional<double> wall, busy;  // examples/s: in all, and while not waiting for others
};

struct SlowTrainer {
  std::string node, role;
  double rate = 0;    // examples/s
  double median = 0;  // median rate of the other trainers
  bool busy = false;  // both are rates while not waiting
};
std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerRate>& trainers);

// "trainer-3 on n-2 is slow: 410 examples/s, 38 % of the others' median 1080"
std::string describe(const SlowTrainer& slow);

struct ProcessView {
  std::string node;
  remote::ProcessStatus status;
  std::optional<MetricsLine> last;  // trainer: the newest log point or end of a pass
  std::optional<MetricsLine> last_test;
  std::optional<std::uint64_t> saved_pass;     // the newest, from 0, if the latest is not saved
  std::map<std::uint64_t, MetricsLine> ports;  // pserver: the newest line of each port
  std::optional<double> examples_per_second;   // at its last log point
  // Rates by the wall clock, and while not waiting for others: from its reports every second, or
  // else the medians of its last log points.
  std::optional<double> usual_rate, usual_busy_rate;
  std::optional<std::int64_t> heard_ms_ago;  // age of its newest report, line of metrics or log
  std::optional<double> received_per_second, sent_per_second;  // since the last look(), if any
  std::optional<double> cores;  // in use, since the last look() or since its start
  ProcessPace pace;
  std::optional<remote::Progress> progress;  // from its reports, or else from its metrics

  // "stalled 2m42s", "no response for 4.2s", "waits for trainer-1", "testing", "silent for
  // 3m20s"; otherwise describe_state().
  std::string state_text() const;
  // Examples per second; 0 while the process is stalled or waits.
  std::optional<double> rate() const;
};

// The slow ones of the running trainers; none while any trainer hangs, or waits for one that hangs.
std::vector<SlowTrainer> slow_trainers(const std::vector<ProcessView>& processes);

class JobView {
 public:
  explicit JobView(std::string job) : job_(std::move(job)) {}

  // Asks all nodes. A node that fails keeps its error and shows no processes.
  void look(Context& context, ClusterSession& session);
  // look() for a caller that has asked the nodes itself. `look`: the processes of this job only.
  // `newest`: the last lines of metrics of a process, kLinesLookedAt are enough; valid during the
  // call. Asks the nodes only about processes that are missing.
  using NewestMetrics = std::function<std::span<const MetricsLine>(const ProcessOnNode&)>;
  void take(Context& context, ClusterSession& session, ClusterLook look,
            const NewestMetrics& newest);

  const std::string& job() const { return job_; }
  // Pservers, then trainers, each in order of rank.
  const std::vector<ProcessView>& processes() const { return processes_; }
  bool any_running() const;
  // Progress of the running trainers; nothing before the first report.
  std::optional<JobProgress> progress() const;
  std::optional<std::int64_t> left_ms() const;
  const CostTrail& trail() const { return trail_; }
  // Lines about processes that hang and processes that wait for them.
  std::vector<std::string> stalls() const;
  // The newest cost of trainer 0, if it diverges.
  std::optional<double> diverged_to() const { return diverged_to_; }
  const std::optional<BrokenStart>& broken_start() const { return broken_start_; }
  // Nodes that the job has lost, or processes of it that no node of the cluster file has.
  const std::optional<Error>& loss() const { return loss_; }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  struct LastLook {
    remote::Usage usage;
    std::int64_t unix_ms = 0;
  };
  ProcessView view_of(const ProcessOnNode& process, const std::string& node,
                      const std::optional<NodeLook>& look);
  void watch_cost(std::span<const MetricsLine> lines, bool reports);
  void take_history(std::span<const MetricsLine> lines, const std::optional<remote::Progress>& now,
                    std::int64_t started_unix_ms);

  std::string job_;
  std::vector<ProcessView> processes_;
  std::optional<BrokenStart> broken_start_;
  std::optional<Error> loss_;
  std::vector<std::string> missing_;  // processes, if there is a loss_
  ProcessPlaces places_;              // kept between calls of look()
  std::optional<double> diverged_to_;
  CostTrail trail_;  // from the newest metrics of trainer 0
  TimeLeft left_;    // from the same, kept between calls of look()
  std::int64_t history_until_ms_ = 0;
  std::map<std::string, LastLook> last_;  // by process name
};

// Variables about GPUs that the trainers of a job got, and where their values are from.
struct GpuVariable {
  std::string name, value;
  remote::VariableSource source = remote::VariableSource::kPaddlectl;
  std::vector<std::string> trainers;  // those with this value
};

// By name. None for a job without GPUs: the NCCL variables that paddlectl gives to every user's own
// program are then not worth showing.
std::vector<GpuVariable> gpu_variables(const std::vector<ProcessView>& processes);

// "paddlectl", "--env", "cluster file" or "login environment".
std::string_view source_text(remote::VariableSource source);

}  // namespace paddle::cli
