// How far a job is, from what its trainers report of themselves or write into their metrics.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/logs/metrics_line.h"
#include "remote/agent_client.h"

namespace paddle::cli {

struct JobProgress {
  // Of the trainer that is the least far: a pass ends when all of them have read their share.
  std::uint64_t pass = 0;           // from 0
  std::uint64_t passes = 0;         // 0: not known
  std::optional<double> pass_done;  // share that is trained; nothing: not known
  double examples_per_second = 0;   // of all trainers together
  std::optional<double> cost;       // mean of those of the trainers

  double position() const { return static_cast<double>(pass) + pass_done.value_or(0); }
};

// Of a line of kind "train" or "pass"; nothing for other kinds.
std::optional<remote::Progress> progress_of(const MetricsLine& line);
// The number of passes that the newest of the lines tells; 0: none does.
std::uint32_t passes_of(const std::vector<MetricsLine>& lines);
// Nothing for no trainer.
std::optional<JobProgress> job_progress(const std::vector<remote::Progress>& trainers);

// Whether a cost is not finite, or a thousand times that of the first batch, as the engine has it.
bool diverges(double cost, std::optional<double> first_cost);
// "training diverges: the cost is 3e+31; lower optimizer.learning_rate, or ..."
std::string divergence_text(double cost);

// The time that is left at the pace of the last ten to twenty minutes, tests and snapshots
// included. A restart, which puts the job back, costs its own time only: the pace from before
// stays.
class TimeLeft {
 public:
  void add(std::int64_t unix_ms, double position);  // in passes
  // The time until the next position says nothing about the pace: the job hangs or starts again.
  void interrupt() { stretch_.reset(); }
  // Nothing before the pace is known.
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

// Costs over the time seen, in a bounded number of cells.
class CostTrail {
 public:
  void add(double cost);
  // One character a cell: "▂▃▅▆", or of "_.-=*#" when the terminal has no UTF-8.
  std::string sparkline(bool utf8) const;

 private:
  std::vector<double> cells_;
  std::size_t stride_ = 1;  // costs to a cell
  std::size_t in_last_ = 0;
};

// "pass 2/10", "41 %", "5,031/s", "12 min left": the words of a progress line.
std::string pass_text(std::uint64_t pass, std::uint64_t passes);  // pass from 0
std::string share_text(double share);
std::string rate_text(double per_second);
std::string left_text(std::int64_t ms);
// "last saved: pass 3" of the newest pass that has a snapshot, from 0, in a job whose latest one
// could not be saved.
std::string saved_text(std::optional<std::uint64_t> pass);

}  // namespace paddle::cli
