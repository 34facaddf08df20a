// Sums over a process's lines of metrics. They are taken one by one, so that a reader may keep only
// some of the lines.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cli/watch/metrics_line.h"

namespace paddle::cli {

// A pause between two log points of a pass is a stall if it takes at least kStallMsMin and
// kStallFactor times as long as the usual pause.
constexpr std::int64_t kStallMsMin = 10'000;
constexpr std::int64_t kStallFactor = 8;

// The examples of a pass that a trainer has trained, over all runs of the job; each run counts from
// 0.
struct PassSamples {
  double samples = 0;
  bool is_split = false;  // several runs trained the pass
};

// Counts the batches over all passes; in a line, each pass counts from 0. A job that goes on from
// an earlier pass goes back to the batches before that pass.
class StepCount {
 public:
  // The number of batches before and with the line.
  std::uint64_t at(const MetricsLine& line);

 private:
  std::map<std::uint64_t, std::uint64_t> begins_{{0, 0}};  // by pass; only the last passes
  std::uint64_t pass_ = 0;
  std::uint64_t begin_ = 0;    // batches before the pass
  std::uint64_t in_pass_ = 0;  // batches of the pass
};

// Memory is bounded: of very many passes and stalls only the last ones are known one by one.
class MetricsTotals {
 public:
  void add(const MetricsLine& line);

  const std::map<std::uint64_t, PassSamples>& passes() const { return passes_; }
  double samples() const;                            // of all passes
  double mean_rate() const { return rate_.mean(); }  // examples/s over the lines; 0: not known
  double mean_busy() const { return busy_.mean(); }  // the same while not waiting for others
  // Begin and end in Unix milliseconds of each pause that is long enough for a stall.
  std::vector<std::pair<std::int64_t, std::int64_t>> stalls() const;
  // How many pauses were long enough, if the usual pause were short.
  std::uint64_t long_pauses() const { return long_pauses_seen_; }
  // As StepCount has it for the last line.
  std::uint64_t step() const { return step_; }

 private:
  struct Mean {
    double sum = 0;
    std::uint64_t count = 0;
    void add(const std::optional<double>& value);
    double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };
  struct Place {  // of a line of training
    std::uint64_t pass = 0, batch = 0, samples = 0;
    std::int64_t unix_ms = 0;
  };
  void add_samples(const MetricsLine& line);
  void add_pause(const MetricsLine& line);

  std::map<std::uint64_t, PassSamples> passes_;
  double samples_of_former_ = 0;  // of passes that are no longer in passes_
  double before_ = 0;             // samples of the pass in earlier runs that ended in it
  std::optional<Place> trained_;  // the last line of kind train, pass or stop
  std::optional<Place> logged_;   // the last line of kind train or pass
  std::map<std::int64_t, std::uint64_t> pauses_;  // how many, by rounded length
  std::uint64_t pauses_counted_ = 0;
  std::deque<std::pair<std::int64_t, std::int64_t>> long_pauses_;
  std::uint64_t long_pauses_seen_ = 0;
  Mean rate_, busy_;
  StepCount steps_;
  std::uint64_t step_ = 0;
};

}  // namespace paddle::cli
