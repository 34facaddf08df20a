// Builder of a plan. Each layer in turn adds the inputs and ops of its forward; then, from the last
// layer to the first, the ops of its backward.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/nn/layer.h"
#include "engine/nn/plan.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

class Lowering {
 public:
  // Both arguments must outlive the lowering.
  Lowering(std::span<const std::unique_ptr<Layer>> layers,
           std::span<const wire::ParameterSpec> parameters);

  // Layers call the functions below.
  void emit(Op op);
  // Calls `emit_backward` when all layers have emitted their forward, and after the functions of
  // later layers.
  void at_backward(std::function<void()> emit_backward);

  std::size_t add_input(std::unique_ptr<const BatchInput> input);
  // Outputs of a layer and their gradient.
  Region output(std::size_t layer);
  Region output_gradient(std::size_t layer);
  Region scratch(std::size_t layer, std::size_t width);
  Region parameter(std::size_t parameter);
  Region parameter_gradient(std::size_t parameter);
  // Makes the floats of an input the outputs of a layer.
  void put_output(std::size_t layer, std::size_t input);
  // Floats of an input, `width` for each row.
  Region input_floats(std::size_t input, std::size_t width);

  // Whether the next op of the backward that writes the gradient must accumulate: true for all ops
  // but the first.
  bool claim_output_gradient(std::size_t layer);
  bool claim_parameter_gradient(std::size_t parameter);
  // Gradient for ops that only accumulate. Emits an op that clears it if no op has written it yet.
  Region zeroed_parameter_gradient(std::size_t parameter);

  std::size_t add_cost(std::size_t layer);
  // Index in Plan::predictions of a layer's predictions; costs that read the same layer share them.
  std::size_t predictions(std::size_t layer);

  // Network calls one of the two functions below, at the end.
  Plan take_forward() { return std::move(plan_); }
  Plan take();

 private:
  Region add_buffer(Buffer buffer);
  Buffer of_parameter(Buffer::Kind kind, std::size_t parameter) const;

  std::span<const std::unique_ptr<Layer>> layers_;
  std::span<const wire::ParameterSpec> parameters_;
  Plan plan_;
  bool is_backward_ = false;
  std::vector<std::function<void()>> backward_;
  // Indexed by layer or by parameter.
  std::vector<std::optional<Region>> output_gradients_;
  std::vector<std::optional<Region>> parameter_values_;
  std::vector<bool> output_gradient_claimed_;
  std::vector<bool> parameter_gradient_claimed_;
};

}  // namespace paddle::nn
