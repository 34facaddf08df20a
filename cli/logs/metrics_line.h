// Lines of metrics.jsonl, as trainers and pservers write them (engine/trainer/metrics.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paddle::cli {

struct MetricsLine {
  std::string kind;  // train, pass, test, save, stop, pserver
  std::uint64_t pass = 0, batch = 0, samples = 0;
  std::optional<double> cost;  // nothing when it is not finite
  bool cost_is_null = false;   // the line has one, which is not finite
  std::int64_t unix_ms = 0;    // by the node's clock
  // Every other field, in order.
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, std::vector<double>>> lists;

  std::optional<double> number(std::string_view key) const;
  // The numbers that are values of evaluators.
  std::vector<std::pair<std::string, double>> evaluators() const;
};

// Nothing for text that is no such line.
std::optional<MetricsLine> parse_metrics(std::string_view line);

// "pass 2 of 10 (pass-00001)", or "pass 2 (pass-00001)" with `passes` 0, which are not known. The
// pass counts from 0; people read numbers from 1, beside the name of its snapshot.
std::string pass_words(std::uint64_t pass, std::uint64_t passes);
// A test: "pass 2 of 10 (pass-00001): held-out cost 5, perplexity 148.41 (10 samples)"; the end of
// a pass: "pass 2 of 10 (pass-00001): training cost 5 (10 samples)".
std::string describe(const MetricsLine& line, std::uint64_t passes = 0);
// Trainer 0's line at the end of a pass with the values of all trainers, where it has them
// ("total_cost"), in the place of its own.
MetricsLine of_whole_job(MetricsLine pass);

// "jobs/j/node_0/train-1.log" -> "jobs/j/node_0/metrics-1.jsonl"; of "server-1.log"
// "server-metrics-1.jsonl".
std::string metrics_path(const std::string& log);

}  // namespace paddle::cli
