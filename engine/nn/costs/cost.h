// What the cost layers that compare an input with labels have in common: one input, no output, and
// a gradient that is made while the input's row is in the first-level cache.
#pragma once

#include "engine/nn/builder.h"
#include "engine/nn/labels.h"

namespace paddle::nn {

class Cost : public Layer {
 public:
  Cost(const Builder& builder, LayerInput input, Labels labels)
      : Layer(builder.config().name, builder.index(), 0),
        input_(input),
        labels_(std::move(labels)) {}

  void set_consumers(std::span<const std::uint32_t> consumers) final;
  void backward(const Run& run, LayerAccess access) const final;

 protected:
  const LayerInput& input() const { return input_; }
  const Labels& labels() const { return labels_; }
  // Where the forward writes the gradient with respect to row `row` of the input; scratch in a
  // test.
  float* gradient_row(const Run& run, LayerAccess& access, std::size_t row) const;

 private:
  LayerInput input_;
  Labels labels_;
  bool only_consumer_ = false;
};

// kUsage where the input is a layer with a sigmoid or softmax of its own: costs take logits.
Result<LayerInput> logits_input(Builder& builder);

}  // namespace paddle::nn
