// Labels as arrays for the ops of costs.
#pragma once

#include "engine/nn/labels.h"
#include "engine/nn/plan/batch_input.h"

namespace paddle::nn {

// Makes `indices`: the class of each example.
class ClassLabels final : public BatchInput {
 public:
  explicit ClassLabels(Labels labels) : labels_(std::move(labels)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  Labels labels_;
};

}  // namespace paddle::nn
