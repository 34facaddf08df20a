// Builder of a plan. Each layer in turn adds the inputs and ops of its forward; then, from the last
// layer to the first, the ops of its backward.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/nn/layer.h"
#include "engine/nn/plan/plan.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

class Lowering {
 public:
  // Both outlive it.
  Lowering(std::span<const std::unique_ptr<Layer>> layers,
           std::span<const wire::ParameterSpec> parameters);

  // Layers call these.
  void emit(Op op);
  // Calls `emit_backward` once the forward of all layers is there, after those of later layers.
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

  // Whether the next op of the backward that writes the gradient must accumulate: all but the first
  // one.
  bool claim_output_gradient(std::size_t layer);
  bool claim_parameter_gradient(std::size_t parameter);
  // For ops that only accumulate: the gradient, which an op clears where nothing wrote it yet.
  Region zeroed_parameter_gradient(std::size_t parameter);

  std::size_t add_cost(std::size_t layer);
  // Of a layer; costs that read the same one share them.
  std::size_t predictions(std::size_t layer);

  // Network calls one of these, at the end.
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
  // By layer or parameter.
  std::vector<std::optional<Region>> output_gradients_;
  std::vector<std::optional<Region>> parameter_values_;
  std::vector<bool> output_gradient_claimed_;
  std::vector<bool> parameter_gradient_claimed_;
};

}  // namespace paddle::nn
