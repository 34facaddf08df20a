// The progress of a job, from its trainers' reports or their metrics.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/watch/metrics_line.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

struct JobProgress {
  // Position of the slowest trainer: a pass ends when all trainers have read their share.
  std::uint64_t pass = 0;           // from 0
  std::uint64_t passes = 0;         // 0: not known
  std::optional<double> pass_done;  // share that is trained; nothing: not known
  double examples_per_second = 0;   // sum over all trainers
  std::optional<double> cost;       // mean over the trainers

  double position() const { return static_cast<double>(pass) + pass_done.value_or(0); }
};

// Progress from a line of kind "train" or "pass"; nothing for other kinds.
std::optional<remote::Progress> progress_of(const MetricsLine& line);
// The number of passes in the newest line that has it; 0: none has.
std::uint32_t passes_of(std::span<const MetricsLine> lines);
// Nothing if there are no trainers.
std::optional<JobProgress> job_progress(const std::vector<remote::Progress>& trainers);

// Whether a cost is not finite, or a thousand times the cost of the first batch (the engine's
// rule).
bool diverges(double cost, std::optional<double> first_cost);
// "training diverges: the cost is 3e+31; lower optimizer.learning_rate, or ..."
std::string divergence_text(double cost);

// The time left, at the pace of the last ten to twenty minutes, tests and snapshots included. A
// restart, which sets the job back, costs only its own time; the pace from before stays valid.
class TimeLeft {
 public:
  void add(std::int64_t unix_ms, double position);  // position: in passes
  // Called if the job hangs or starts again: the time until the next position is then no part of
  // the pace.
  void interrupt() { stretch_.reset(); }
  // Nothing until the pace is known.
  std::optional<std::int64_t> left_ms(double passes) const;

 private:
  struct Point {
    std::int64_t unix_ms = 0;
    double position = 0;
  };
  std::optional<Point> stretch_;  // the newest point, unless interrupted since
  double position_ = 0;
  double moved_ = 0, moved_ms_ = 0;  // passes, and the time that they took
  int moves_ = 0;
};

// Costs over time, in a bounded number of cells.
class CostTrail {
 public:
  void add(double cost);
  // One character per cell: "▂▃▅▆", or from "_.-=*#" if the terminal has no UTF-8.
  std::string sparkline(bool utf8) const;

 private:
  std::vector<double> cells_;
  std::size_t stride_ = 1;  // costs per cell
  std::size_t in_last_ = 0;
};

// "pass 2/10", "41 %", "5,031/s", "12 min left": the texts of a progress line.
std::string pass_text(std::uint64_t pass, std::uint64_t passes);  // pass from 0
std::string share_text(double share);
std::string rate_text(double per_second);
std::string left_text(std::int64_t ms);
// "last saved: pass 3", for a job that could not save its latest snapshot. `pass`: the newest pass
// with a snapshot, from 0.
std::string saved_text(std::optional<std::uint64_t> pass);

}  // namespace paddle::cli
