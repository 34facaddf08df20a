// squared_error: the cost sum over outputs of (x - y)^2, as in square_error_cost of PaddlePaddle
// v0.10. Labels: a float for each output, or, for one output, the only id of the example, read as a
// number.
#include <fmt/format.h>

#include "engine/math/costs.h"
#include "engine/nn/cost.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class SquaredError final : public Cost {
 public:
  using Cost::Cost;

  Status forward(const Run& run, LayerAccess access, double& cost_sum) const override {
    const std::size_t width = input().width;
    const float* x = access.output(input().layer);
    for (std::size_t row = 0; row < run.rows(); ++row, x += width) {
      float* gradient = gradient_row(run, access, row);
      PADDLE_TRY_STATUS(labels().numbers(run, run.begin + row, gradient));
      const float by = weight(run, row);
      cost_sum += by * kernels::squared_error(width, x, run.cost_scale * by, gradient);
    }
    return {};
  }

  void lower(Lowering& lowering) const override {
    const std::size_t width = input().width;
    const auto labels_input =
        lowering.add_input(std::make_unique<FloatLabels>(labels(), width, &Labels::numbers));
    lowering.emit(op::SquaredError{.width = width,
                                   .x = lowering.output(input().layer),
                                   .labels = lowering.input_floats(labels_input, width),
                                   .gradient = lower_gradient(lowering),
                                   .cost = lowering.add_cost(index())});
  }

  std::vector<std::string_view> default_evaluators() const override { return {"rmse"}; }
};

}  // namespace

LayerResult make_squared_error(Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  PADDLE_TRY(const LayerInput input, builder.layer_input(builder.config().inputs[0]));
  PADDLE_TRY_STATUS(builder.check_size(input.width));
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width));
  if (!labels.are_floats() && input.width != 1) {
    return builder.error(
        fmt::format("its label is a slot of ids, which is one number, but its input has {} outputs",
                    input.width));
  }
  PADDLE_TRY_STATUS(labels.check_no_names(builder));
  builder.add_rule(labels.number_rule());
  add_weight_rule(builder);
  return LayerResult(std::make_unique<SquaredError>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
