// calibration: the mean probability of class 1 by the share of class 1, which is 1 for a model that
// is right on average. Undefined (NaN) without an example of class 1.
#include <limits>

#include "engine/nn/binary_scores.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

constexpr std::size_t kBins = 10;  // of the curve

class Calibration final : public Evaluator {
 public:
  Calibration(const Builder& builder, BinaryScores scores)
      : Evaluator(builder.config().name, scores.layer(), Reads::kOutputs, 2, 1, 1),
        scores_(std::move(scores)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    PADDLE_TRY(std::vector<std::uint64_t> examples, scores_.examples(run, access));
    for (const std::uint64_t example : examples) {
      counters.counts[kOnes] += example & 1U;
      counters.sums[0] += probability_of_key(static_cast<std::uint32_t>(example >> 32U));
    }
    counters.counts[kExamples] += examples.size();
    counters.histograms[0].add(examples);
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    Value made{.name = name(), .one_is_best = true};
    if (totals.counts[kOnes] == 0) {
      made.value = std::numeric_limits<double>::quiet_NaN();
      made.undefined = totals.counts[kExamples] == 0 ? "there is no example" : "no label is 1";
    } else {
      made.value = totals.sums[0] / static_cast<double>(totals.counts[kOnes]);
    }
    made.curve = {"calibration", calibration_curve(totals.histograms[0], kBins)};
    to.push_back(std::move(made));
  }

 private:
  // Indices of its counts.
  enum Count : std::size_t { kExamples, kOnes };

  BinaryScores scores_;
};

}  // namespace

EvaluatorResult make_calibration(Builder& builder) {
  PADDLE_TRY(BinaryScores scores, BinaryScores::make(builder));
  if (!scores.are_probabilities()) {
    return builder.error(
        "its input is no probability",
        "name the input of a cost of type binary_cross_entropy, or a sigmoid or softmax of it");
  }
  return EvaluatorResult(std::make_unique<Calibration>(builder, std::move(scores)));
}

}  // namespace paddle::nn
