// binary_cross_entropy: the cost sum over outputs of -y ln p - (1 - y) ln(1 - p), p = sigmoid of
// the input. Labels of one output are 0 or 1, in a slot of floats or of ids. Labels of several
// outputs are a float for each output, or the ids of the outputs whose label is 1.
#include "engine/math/costs.h"
#include "engine/nn/cost.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class BinaryCrossEntropy final : public Cost {
 public:
  using Cost::Cost;

  Status forward(const Run& run, LayerAccess access, double& cost_sum) const override {
    const std::size_t width = input().width;
    const float* logits = access.output(input().layer);
    for (std::size_t row = 0; row < run.rows(); ++row) {
      // The gradient's row holds the labels until the kernel overwrites it.
      float* gradient = gradient_row(run, access, row);
      PADDLE_TRY_STATUS(labels().binary(run, run.begin + row, gradient));
      const float by = weight(run, row);
      cost_sum += by * kernels::binary_cross_entropy(width, logits + row * width,
                                                     run.cost_scale * by, gradient);
    }
    return {};
  }

  void lower(Lowering& lowering) const override {
    const std::size_t width = input().width;
    const auto labels_input =
        lowering.add_input(std::make_unique<FloatLabels>(labels(), width, &Labels::binary));
    lowering.emit(op::BinaryCrossEntropy{.width = width,
                                         .x = lowering.output(input().layer),
                                         .labels = lowering.input_floats(labels_input, width),
                                         .gradient = lower_gradient(lowering),
                                         .cost = lowering.add_cost(index())});
  }

  std::vector<std::string_view> default_evaluators() const override {
    if (input().width > 1) return {};
    return {"auc"};
  }
};

}  // namespace

LayerResult make_binary_cross_entropy(Builder& builder) {
  PADDLE_TRY(const LayerInput input, logits_input(builder));
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width));
  PADDLE_TRY(SlotRule rule, labels.binary_rule(builder));
  builder.add_rule(std::move(rule));
  add_weight_rule(builder);
  return LayerResult(std::make_unique<BinaryCrossEntropy>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
