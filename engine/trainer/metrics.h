// What a trainer tells the world: log lines in v0.10's shape, and metrics.jsonl for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/tally.h"
#include "engine/nn/evaluator.h"

namespace paddle::trainer {

// Sums over examples.
struct Score {
  std::uint64_t samples = 0;
  double cost = 0;
  Tally tally;  // of the evaluators

  void add(const Score& other);
};

// What a score says: the mean cost, and the value of each evaluator.
struct Reading {
  std::uint64_t samples = 0;
  double cost = 0;
  std::vector<nn::Value> values;
};

// "Pass=0 Batch=100 samples=3200 AvgCost=6.1 CurrentCost=5.9 Eval: classification_error=0.93
// CurrentEval: classification_error=0.9"; without `current` the line of a whole pass. The
// evaluators are left out where there is none.
std::string progress_line(std::uint32_t pass, std::uint64_t batch, const Reading& since_start,
                          const std::optional<Reading>& current);
// " Test samples=100 cost=5.1 Eval: classification_error=0.9 perplexity=164.02"
std::string test_line(const Reading& reading);
// "Pass=0 over all trainers: samples=12800 AvgCost=6.1 discarded=0 Eval: auc=0.7"
std::string totals_line(std::uint32_t pass, const Reading& totals, std::uint64_t discarded);

// One JSON object a line:
// {"kind":"train","pass":0,"batch":100,"samples":3200,"cost":6.1,"current_cost":5.9,
// "classification_error":0.93,"examples_per_second":5000,"unix_ms":1700000000000}: each evaluator
// is a key. Kinds: train (a log point; cost and evaluators since the pass began), pass (its end,
// with the job's own as "total_samples", "total_cost", "total_<evaluator>"), test, save (with
// "path"); of a pserver, pserver (a port, now and then). "examples_per_busy_second" leaves out the
// waiting for pservers: where all trainers go at the pace of the slowest, it tells which that is.
class MetricsFile {
 public:
  MetricsFile() = default;                                   // writes nothing
  static Result<MetricsFile> open(const std::string& path);  // appends

  Status write(std::string_view kind, std::uint32_t pass, std::uint64_t batch,
               const Reading& reading, const std::string& more = "");
  // A line of other fields, as in "port":7164,"rows":3. Lines of several threads stay whole.
  Status write_fields(std::string_view kind, const std::string& fields);

 private:
  UniqueFd fd_;
};

// The fields of a log point or test beside its reading, for `more` of MetricsFile::write.
std::string rate_fields(std::optional<double> current_cost, double examples_per_second);
// The fields "total_..." of a pass, for `more` of MetricsFile::write.
std::string totals_fields(const Reading& totals);
// A JSON string with its quotes.
std::string json_string(std::string_view text);

}  // namespace paddle::trainer
