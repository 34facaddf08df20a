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

// Makes `floats`: for each example a number for each of `width` outputs, which Labels::binary or
// Labels::numbers writes.
class FloatLabels final : public BatchInput {
 public:
  using Write = Status (Labels::*)(const Run& run, std::size_t example, float* out) const;

  FloatLabels(Labels labels, std::size_t width, Write write)
      : labels_(std::move(labels)), width_(width), write_(write) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  Labels labels_;
  std::size_t width_;
  Write write_;
};

}  // namespace paddle::nn
