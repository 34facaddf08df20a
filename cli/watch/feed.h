// Prints what happens to a job: tests, a progress line, stalls, restarts and divergence while it is
// followed, and a summary of what happened before.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/pace.h"
#include "cli/watch/progress.h"

namespace paddle::cli {

// The outcome of a job, as far as this command has followed it.
struct JobSummary {
  std::optional<MetricsLine> last_test;  // from trainer 0
  std::optional<MetricsLine> last_pass;  // from trainer 0, with the values of all trainers
  bool is_pass_untold = false;           // last_pass is not printed yet; a test may follow it
  std::uint64_t passes = 0;              // 0: not known
  std::optional<double> first_cost;      // cost of the first batch, if the metrics have it
  std::optional<double> diverged_to;     // the cost, if not finite or far above the first cost
  std::size_t tests_told = 0;            // in its metrics: printed, or from an earlier run
  bool stands_still = false;             // a node is silent, and the job makes no progress
  std::uint32_t restarts_allowed = 0;    // of its processes
  // Nodes that were replaced or restarted, so that the job ended: it may go on once they are ready.
  std::vector<std::string> returned_nodes;
};

class JobFeed {
 public:
  // past_tests: the number of tests to print of those before the first poll.
  JobFeed(Context& context, ClusterSession& session, JobSummary& summary,
          std::size_t past_tests = SIZE_MAX)
      : context_(context),
        session_(session),
        summary_(summary),
        tests_to_skip_(summary.tests_told),
        past_tests_(past_tests) {}

  void poll(const std::vector<ProcessOnNode>& processes);

 private:
  void read_metrics(const std::vector<ProcessOnNode>& processes);
  void take(const ProcessOnNode& process, const MetricsLine& line);
  void take_warning(const ProcessOnNode& process, const MetricsLine& line);
  // A line that came in pieces cannot be read; warns once of each process that writes such lines.
  void take_long_line(const ProcessOnNode& process);
  // Prints the training values of the last pass, for a job without tests.
  void tell_pass();
  void show_tests();
  void watch_cost(double cost);
  void tell_restarts(const std::vector<ProcessOnNode>& processes);
  void tell_stalls(const std::vector<ProcessOnNode>& processes, const Paces& paces);
  // Prints snapshots that could not be saved, or from which training could not continue.
  void tell_snapshot_failures(const std::vector<ProcessOnNode>& processes);
  void show_progress(const std::vector<ProcessOnNode>& processes, const Paces& paces);
  // Warns once that the nodes are taken back before the job can be done.
  void tell_end(std::optional<std::int64_t> left_ms);
  void show_start(const std::vector<ProcessOnNode>& processes);
  std::string line_of(const JobProgress& progress, const Paces& paces) const;

  Context& context_;
  ClusterSession& session_;
  JobSummary& summary_;
  std::map<std::string, LogReader> readers_;  // for metrics, by process
  std::map<std::string, remote::Progress> from_metrics_;
  std::set<std::string> has_long_line_;                  // processes, as printed
  std::map<std::string, std::uint32_t> restarts_shown_;  // the last `incarnation`, by process
  std::map<std::string, std::string> save_failures_;     // by process, as printed
  std::optional<std::uint64_t> saved_pass_;              // the newest, from 0
  std::map<std::string, std::string> rollbacks_;         // by process, as printed
  std::vector<std::string> tests_;                       // not printed yet
  std::vector<std::string> warnings_;                    // not printed yet
  std::size_t tests_to_skip_;
  std::size_t past_tests_;
  bool has_looked_ = false;
  bool has_told_end_ = false;
  std::string start_told_;
  std::set<std::pair<std::string, Pace>> hanging_;
  TimeLeft left_;
  CostTrail trail_;
  bool knows_first_batch_ = false;     // summary_.first_cost is that batch's
  std::int64_t reported_unix_ms_ = 0;  // time of the newest report in trail_
};

// The node of each process, by its name.
std::map<std::string, std::string> nodes_of(ClusterSession& session,
                                            const std::vector<ProcessOnNode>& processes);

// Prints a summary of a running job for a command that did not follow it: its last restarts and the
// end of its log. Notes go to stderr, the oldest first.
void tell_past(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
