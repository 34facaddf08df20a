// Evaluator of a network: collects from the examples the counts and sums that a figure such as AUC
// is computed from.
//
// Counters (one evaluator's, of a batch) -> Tally (of all evaluators; added up over threads,
// batches and trainers) -> Totals (one evaluator's part of it) -> Value (a figure) -> Reading (all
// figures, trainer/metrics.h). Sums must stay finite: a pass with another one is refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/grouped_scores.h"
#include "base/result.h"
#include "base/score_histogram.h"
#include "engine/nn/run.h"
#include "engine/nn/workspace.h"

namespace paddle::nn {

// Curve behind a figure, to draw.
struct Curve {
  std::string kind = {};    // "roc", "precision_recall" or "calibration"; "": there is none
  CurvePoints points = {};  // by rising x
};

struct Value {
  std::string name;
  double value = 0;  // NaN: undefined for these examples, or not a number
  bool higher_is_better = false;
  std::string undefined = {};  // why `value` is undefined; "": it is defined
  bool one_is_best = false;    // the nearer to 1, the better; then higher_is_better does not count
  Curve curve = {};
};

// One evaluator's part of a Tally.
struct Counters {
  std::span<std::uint64_t> counts;
  std::span<double> sums;
  std::span<ScoreHistogram> histograms = {};
  std::span<GroupedScores> grouped = {};
};
struct Totals {
  std::span<const std::uint64_t> counts;
  std::span<const double> sums;
  std::span<const ScoreHistogram> histograms = {};
  std::span<const GroupedScores> grouped = {};
};

class Evaluator {
 public:
  // Results of layer() that count() reads. kPredictions: its predictions, or its outputs if it has
  // no predictions.
  enum class Reads { kOutputs, kPredictions, kCost };

  Evaluator(std::string name, std::size_t layer, Reads reads, std::size_t counts, std::size_t sums,
            std::size_t histograms = 0, std::size_t grouped = 0)
      : name_(std::move(name)),
        layer_(layer),
        reads_(reads),
        counts_(counts),
        sums_(sums),
        histograms_(histograms),
        grouped_(grouped) {}
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  const std::string& name() const { return name_; }
  std::size_t layer() const { return layer_; }
  Reads reads() const { return reads_; }
  std::size_t counts() const { return counts_; }
  std::size_t sums() const { return sums_; }
  std::size_t histograms() const { return histograms_; }
  std::size_t grouped() const { return grouped_; }

  // Adds the run's examples to `counters`. Called after the forward of every layer. kData: a label
  // is out of range.
  virtual Status count(const Run& run, LayerAccess access, Counters counters) const = 0;
  // Appends one value, or several with names of their own.
  virtual void values(Totals totals, std::vector<Value>& to) const = 0;

 private:
  std::string name_;
  std::size_t layer_;
  Reads reads_;
  std::size_t counts_;
  std::size_t sums_;
  std::size_t histograms_;
  std::size_t grouped_;
};

}  // namespace paddle::nn
