#include "engine/nn/evaluators/evaluator_input.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::nn {

Result<EvaluatorInput> evaluator_input(const Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  const std::string& name = builder.config().inputs[0];
  PADDLE_TRY(const LayerInput input, builder.find_layer(name));
  if (input.width == 0) {
    return builder.error(fmt::format("input '{}' is a cost layer, which has no output", name),
                         "name the layer that the cost reads");
  }
  const std::string activation = builder.activation_of(name);
  return EvaluatorInput{input.layer, input.width,
                        activation == "sigmoid" || activation == "softmax"};
}

std::size_t largest_output(const float* x, std::size_t width) {
  return static_cast<std::size_t>(std::max_element(x, x + width) - x);
}

}  // namespace paddle::nn
