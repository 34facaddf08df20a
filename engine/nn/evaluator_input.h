// Layer that an evaluator reads; an evaluator does not count as a consumer.
#pragma once

#include <algorithm>

#include <fmt/format.h>

#include "engine/nn/builder.h"
#include "engine/nn/evaluator.h"
#include "engine/nn/labels.h"

namespace paddle::nn {

struct EvaluatorInput {
  std::size_t layer = 0;
  std::size_t width = 0;
  bool is_probability = false;  // the layer ends in a sigmoid or softmax; else logits

  // Outputs above it predict "yes".
  float threshold() const { return is_probability ? 0.5F : 0.0F; }
};

// The only input of the evaluator being built. kUsage: there is not exactly one, or it is a cost
// layer.
inline Result<EvaluatorInput> evaluator_input(const Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  const std::string& name = builder.config().inputs[0];
  PADDLE_TRY(const LayerInput input, builder.find_layer(name));
  if (input.width == 0) {
    return builder.error(fmt::format("input '{}' is a cost layer, which has no output", name),
                         "name the layer that the cost reads");
  }
  const std::string& activation = builder.config_of(name).activation;
  return EvaluatorInput{input.layer, input.width,
                        activation == "sigmoid" || activation == "softmax"};
}

// Class of the largest output; the first of several equal ones.
inline std::size_t largest_output(const float* x, std::size_t width) {
  return static_cast<std::size_t>(std::max_element(x, x + width) - x);
}

}  // namespace paddle::nn
