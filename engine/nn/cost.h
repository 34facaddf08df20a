// Base of the cost layers that compare one input with labels. An example's cost is multiplied by
// its weight, if the data has weights (DataConfig::weight). They compute the gradient in the
// forward, while the input's row is in the first-level cache.
#pragma once

#include <optional>

#include "engine/nn/builder.h"
#include "engine/nn/labels.h"
#include "engine/nn/lowering.h"

namespace paddle::nn {

class Cost : public Layer {
 public:
  Cost(const Builder& builder, LayerInput input, Labels labels)
      : Layer(builder.config().name, builder.index(), 0),
        input_(input),
        labels_(std::move(labels)),
        weight_slot_(builder.weight_slot()) {}

  void set_consumers(std::span<const std::uint32_t> consumers) final;
  void backward(const Run& run, LayerAccess access) const final;

 protected:
  const LayerInput& input() const { return input_; }
  const Labels& labels() const { return labels_; }
  // The factor of the cost of row `row`.
  float weight(const Run& run, std::size_t row) const {
    return weight_slot_ ? run.batch.slots[*weight_slot_].values[run.begin + row] : 1.0F;
  }
  // Where forward() writes the gradient of row `row` of the input; scratch memory in a test.
  float* gradient_row(const Run& run, LayerAccess& access, std::size_t row) const;
  // Region where the op of the forward writes the gradient of the input. Also registers the op of
  // the backward, if one is needed.
  Region lower_gradient(Lowering& lowering) const;

 private:
  LayerInput input_;
  Labels labels_;
  std::optional<std::size_t> weight_slot_;
  bool only_consumer_ = false;
};

// Adds the condition on the weights of examples, if there are any.
void add_weight_rule(Builder& builder);

// The only input, which must be logits. kUsage: the input layer applies a sigmoid or softmax
// itself.
Result<LayerInput> logits_input(Builder& builder);

// The classes below turn labels into arrays for the ops of costs.

// Fills `indices` with the class of each example.
class ClassLabels final : public BatchInput {
 public:
  explicit ClassLabels(Labels labels) : labels_(std::move(labels)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  Labels labels_;
};

// Fills `floats` with a number for each example and each of `width` outputs. `write` is
// Labels::binary or Labels::numbers.
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
