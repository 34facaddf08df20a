// What a trainer tells the world: log lines in v0.10's shape, and metrics.jsonl for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/fd.h"
#include "engine/base/result.h"

namespace paddle::trainer {

// Sums over examples.
struct Score {
  std::uint64_t samples = 0;
  double cost = 0;
  std::uint64_t errors = 0;  // examples whose most likely class is not the label

  void add(const Score& other);
  double mean_cost() const { return samples == 0 ? 0 : cost / static_cast<double>(samples); }
  double error_rate() const;
};

// "Pass=0 Batch=100 samples=3200 AvgCost=6.1 CurrentCost=5.9 Eval: classification_error=0.93";
// without `current` the line of a whole pass.
std::string progress_line(std::uint32_t pass, std::uint64_t batch, const Score& since_start,
                          const std::optional<Score>& current);
// " Test samples=100 cost=5.1 perplexity=164.02 Eval: classification_error=0.9"
std::string test_line(const Score& score);

// One JSON object a line:
// {"kind":"train","pass":0,"batch":100,"samples":3200,"cost":6.1,"current_cost":5.9,
// "classification_error":0.93,"examples_per_second":5000,"unix_ms":1700000000000}. Kinds: train (a
// log point; cost since the pass began), pass (its end), test (with "perplexity"), save (with
// "path").
class MetricsFile {
 public:
  MetricsFile() = default;                                   // writes nothing
  static Result<MetricsFile> open(const std::string& path);  // appends

  Status write(std::string_view kind, std::uint32_t pass, std::uint64_t batch, const Score& score,
               const std::string& more = "");

 private:
  UniqueFd fd_;
};

// A JSON string with its quotes.
std::string json_string(std::string_view text);

}  // namespace paddle::trainer
