// softmax_cross_entropy: the cost -ln softmax(logits)[label] of each example.
#include <algorithm>

#include "engine/math/costs.h"
#include "engine/nn/cost.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class SoftmaxCrossEntropy final : public Cost {
 public:
  using Cost::Cost;

  Status forward(const Run& run, LayerAccess access, double& cost_sum) const override {
    const float* logits = access.output(input().layer);
    const std::size_t width = input().width;
    const float scale = run.mode == Mode::kTrain ? run.cost_scale : 0.0F;
    std::vector<std::uint32_t>& predictions = access.predictions(input().layer);
    predictions.resize(run.rows());
    for (std::size_t row = 0; row < run.rows(); ++row) {
      PADDLE_TRY(const std::uint64_t label, labels().class_of(run, run.begin + row));
      const float by = weight(run, row);
      float* gradient = gradient_row(run, access, row);
      const kernels::SoftmaxCost result =
          kernels::softmax_cross_entropy(width, logits + row * width, label, scale * by, gradient);
      if (by == 0) std::fill_n(gradient, width, 0.0F);  // the kernel writes no gradient of 0
      cost_sum += by * result.cost;
      predictions[row] = static_cast<std::uint32_t>(result.prediction);
    }
    return {};
  }

  void lower(Lowering& lowering) const override {
    lowering.emit(op::SoftmaxCrossEntropy{
        .width = input().width,
        .logits = lowering.output(input().layer),
        .classes = lowering.add_input(std::make_unique<ClassLabels>(labels())),
        .gradient = lower_gradient(lowering),
        .cost = lowering.add_cost(index()),
        .predictions = lowering.predictions(input().layer)});
  }

  std::vector<std::string_view> default_evaluators() const override {
    return {"classification_error", "perplexity"};
  }
};

}  // namespace

LayerResult make_softmax_cross_entropy(Builder& builder) {
  PADDLE_TRY(const LayerInput input, logits_input(builder));
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width, true));
  PADDLE_TRY(SlotRule rule, labels.class_rule(builder));
  builder.add_rule(std::move(rule));
  add_weight_rule(builder);
  return LayerResult(std::make_unique<SoftmaxCrossEntropy>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
