// rmse: the root of the mean squared difference between outputs and labels.
#include <cmath>

#include "engine/nn/evaluator_input.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class Rmse final : public Evaluator {
 public:
  Rmse(const Builder& builder, EvaluatorInput input, Labels labels)
      : Evaluator(builder.config().name, input.layer, Reads::kOutputs, 1, 1),
        input_(input),
        labels_(std::move(labels)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    const float* x = access.output(input_.layer);
    std::vector<float> y(input_.width);
    for (std::size_t row = 0; row < run.rows(); ++row, x += input_.width) {
      PADDLE_TRY_STATUS(labels_.numbers(run, run.begin + row, y.data()));
      for (std::size_t c = 0; c < input_.width; ++c) {
        const double difference = static_cast<double>(x[c]) - static_cast<double>(y[c]);
        counters.sums[0] += difference * difference;
      }
    }
    counters.counts[0] += run.rows() * input_.width;
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    const auto count = static_cast<double>(totals.counts[0]);
    to.push_back({name(), count > 0 ? std::sqrt(totals.sums[0] / count) : 0.0});
  }

 private:
  EvaluatorInput input_;
  Labels labels_;
};

}  // namespace

EvaluatorResult make_rmse(Builder& builder) {
  PADDLE_TRY(const EvaluatorInput input, evaluator_input(builder));
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width));
  builder.add_rule(labels.number_rule());
  if (!labels.are_floats() && input.width != 1) {
    return builder.error(
        "its label is a slot of ids, which is one number, but its input has several outputs");
  }
  return EvaluatorResult(std::make_unique<Rmse>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
