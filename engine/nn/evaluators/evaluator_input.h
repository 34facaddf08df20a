// Layer that an evaluator reads; an evaluator does not count as a consumer.
#pragma once

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

// The only input of the evaluator being built, a layer with outputs.
Result<EvaluatorInput> evaluator_input(const Builder& builder);

// Class of the largest output; the first of equals.
std::size_t largest_output(const float* x, std::size_t width);

}  // namespace paddle::nn
