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
  std::optional<double> cost;  // nothing: none, or not finite
  bool cost_is_null = false;   // the line has a cost, which is not finite
  std::int64_t unix_ms = 0;    // by the node's clock
  // The batch number over all passes, as steps_of() finds it; 0: not computed. A reader that keeps
  // only some of the lines sets it.
  std::uint64_t step = 0;
  // Every other field, in order.
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, std::vector<double>>> lists;

  std::optional<double> number(std::string_view key) const;
  const std::string* text(std::string_view key) const;  // null: the line has no such text
  // The numbers that are evaluators' values.
  std::vector<std::pair<std::string, double>> evaluators() const;
  // Whether a higher value of this figure of the line is better. A line without the key
  // "higher_is_better", as a user's own program may write it, is judged by the figure's name: true
  // for "auc" and "val_accuracy", false for "cost" and "rmse".
  bool is_better_when_higher(std::string_view figure) const;
  // Whether the line's key "one_is_best" names this figure: the nearer to 1, the better.
  bool is_best_at_one(std::string_view figure) const;
};

// Nothing if the text is no such line.
std::optional<MetricsLine> parse_metrics(std::string_view line);

// A test: "pass 2 of 10 (pass-00001): held-out cost 5, perplexity 148.41 (10 samples)"; the end of
// a pass: "pass 2 of 10 (pass-00001): training cost 5 (10 samples)".
std::string describe(const MetricsLine& line, std::uint64_t passes = 0);
// Trainer 0's line at the end of a pass; where the line has values of all trainers ("total_cost"),
// they replace trainer 0's own.
MetricsLine of_whole_job(MetricsLine pass);

// "jobs/j/node_0/train-1.log" -> "jobs/j/node_0/metrics-1.jsonl"; "server-1.log" ->
// "server-metrics-1.jsonl".
std::string metrics_path(const std::string& log);

}  // namespace paddle::cli
