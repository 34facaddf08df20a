// classification_error: the fraction of examples whose likeliest class is not the label.
#include "engine/nn/evaluator_input.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class ClassificationError final : public Evaluator {
 public:
  ClassificationError(const Builder& builder, EvaluatorInput input, Labels labels)
      : Evaluator(builder.config().name, input.layer,
                  input.width == 1 ? Reads::kOutputs : Reads::kPredictions, 2, 0),
        input_(input),
        labels_(std::move(labels)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    const float* x = access.output(input_.layer);
    // Predictions that a softmax cost of the same layer has already found; empty without such a
    // cost.
    const std::span<const std::uint32_t> known = access.predictions(input_.layer);
    for (std::size_t row = 0; row < run.rows(); ++row, x += input_.width) {
      std::uint64_t label = 0;
      std::uint64_t predicted = 0;
      if (input_.width == 1) {
        float binary = 0;
        PADDLE_TRY_STATUS(labels_.binary(run, run.begin + row, &binary));
        label = binary == 1.0F ? 1 : 0;
        predicted = x[0] > input_.threshold() ? 1 : 0;
      } else {
        PADDLE_TRY(label, labels_.class_of(run, run.begin + row));
        predicted = known.empty() ? largest_output(x, input_.width) : known[row];
      }
      if (predicted != label) ++counters.counts[0];
    }
    counters.counts[1] += run.rows();
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    const auto examples = static_cast<double>(totals.counts[1]);
    to.push_back({name(), examples > 0 ? static_cast<double>(totals.counts[0]) / examples : 0.0});
  }

 private:
  EvaluatorInput input_;
  Labels labels_;
};

}  // namespace

EvaluatorResult make_classification_error(Builder& builder) {
  PADDLE_TRY(const EvaluatorInput input, evaluator_input(builder));
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width, input.width > 1));
  PADDLE_TRY(SlotRule rule,
             input.width == 1 ? labels.binary_rule(builder) : labels.class_rule(builder));
  builder.add_rule(std::move(rule));
  return EvaluatorResult(std::make_unique<ClassificationError>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
