// auc: the area under the ROC curve of a score, equal to scikit-learn's roc_auc_score for the
// scores that `paddle predict` prints. It is undefined (NaN) if all labels are of one class.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "engine/math/costs.h"
#include "engine/nn/evaluator_input.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

// Kinds of a layer's outputs. The kind decides how the score of an example follows from them.
enum class Scores {
  kProbabilities,       // probability of class 1: after a sigmoid, or second of a softmax
  kLogits,              // logit of class 1: the cost applies a sigmoid to it
  kLogitsOfTwoClasses,  // two logits; their difference is the logit of class 1
  kNumbers,             // any numbers: only their order counts
};

class Auc final : public Evaluator {
 public:
  Auc(const Builder& builder, EvaluatorInput input, Scores scores, Labels labels)
      : Evaluator(builder.config().name, input.layer, Reads::kOutputs, 0, 0, 1),
        input_(input),
        scores_(scores),
        labels_(std::move(labels)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    const float* x = access.output(input_.layer);
    std::array<float, 1> label{};
    std::vector<std::uint64_t> examples;
    examples.reserve(run.rows());
    for (std::size_t row = 0; row < run.rows(); ++row, x += input_.width) {
      if (input_.width == 1) {
        PADDLE_TRY_STATUS(labels_.binary(run, run.begin + row, label.data()));
      } else {
        PADDLE_TRY(const std::uint64_t id, labels_.class_of(run, run.begin + row));
        label[0] = static_cast<float>(id);
      }
      examples.push_back(std::uint64_t{key(x)} << 32U | (label[0] == 1.0F ? 1U : 0U));
    }
    counters.histograms[0].add(examples);
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    const ScoreHistogram& scores = totals.histograms[0];
    const double area = area_under_curve(scores);
    const char* const why = !std::isnan(area) ? ""
                            : scores.empty()  ? "there is no example"
                                              : "all labels are of one class";
    to.push_back({name(), area, true, why});
  }

 private:
  std::uint32_t key(const float* x) const {
    const float of_one = x[input_.width - 1];
    switch (scores_) {
      case Scores::kProbabilities:
        return probability_key(of_one);
      case Scores::kLogits:
        return probability_key(kernels::sigmoid(of_one));
      case Scores::kLogitsOfTwoClasses:
        return probability_key(kernels::sigmoid(of_one - x[0]));
      case Scores::kNumbers:
        break;
    }
    return score_key(of_one);
  }

  EvaluatorInput input_;
  Scores scores_;
  Labels labels_;
};

}  // namespace

EvaluatorResult make_auc(Builder& builder) {
  PADDLE_TRY(const EvaluatorInput input, evaluator_input(builder));
  if (input.width > 2) {
    return builder.error(
        fmt::format("its input has {} outputs; AUC needs one output or two", input.width));
  }
  Scores scores = Scores::kNumbers;
  if (input.is_probability) {
    scores = Scores::kProbabilities;
  } else if (input.width == 2) {
    scores = Scores::kLogitsOfTwoClasses;
  } else if (builder.is_read_by(builder.config().inputs[0], "binary_cross_entropy")) {
    scores = Scores::kLogits;
  }
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width, input.width == 2));
  PADDLE_TRY(SlotRule rule,
             input.width == 1 ? labels.binary_rule(builder) : labels.class_rule(builder));
  builder.add_rule(std::move(rule));
  return EvaluatorResult(std::make_unique<Auc>(builder, input, scores, std::move(labels)));
}

}  // namespace paddle::nn
