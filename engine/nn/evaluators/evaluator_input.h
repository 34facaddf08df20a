// The layer that an evaluator reads, without being one of its consumers.
#pragma once

#include "engine/nn/builder.h"
#include "engine/nn/evaluator.h"
#include "engine/nn/labels.h"

namespace paddle::nn {

struct EvaluatorInput {
  std::size_t layer = 0;
  std::size_t width = 0;
  bool is_probability = false;  // behind a sigmoid or softmax of its own; else logits

  // What an output must exceed to say "yes".
  float threshold() const { return is_probability ? 0.5F : 0.0F; }
};

// The only input of the evaluator that is being built, a layer with outputs.
Result<EvaluatorInput> evaluator_input(const Builder& builder);

// The class of the largest output; the first one of equals.
std::size_t largest_output(const float* x, std::size_t width);

}  // namespace paddle::nn
