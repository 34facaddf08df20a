#include "engine/nn/lowering.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/nn/builder.h"

namespace paddle::nn {

Lowering::Lowering(std::span<const std::unique_ptr<Layer>> layers,
                   std::span<const wire::ParameterSpec> parameters)
    : layers_(layers),
      parameters_(parameters),
      output_gradients_(layers.size()),
      parameter_values_(parameters.size()),
      output_gradient_claimed_(layers.size()),
      parameter_gradient_claimed_(parameters.size()) {
  plan_.outputs.resize(layers.size());
  plan_.parameter_gradients.resize(parameters.size());
  for (const wire::ParameterSpec& spec : parameters) plan_.is_static.push_back(spec.is_static());
}

void Lowering::emit(Op op) {
  (is_backward_ ? plan_.backward : plan_.forward).push_back(std::move(op));
}

void Lowering::at_backward(std::function<void()> emit_backward) {
  PADDLE_CHECK(!is_backward_);
  backward_.push_back(std::move(emit_backward));
}

std::size_t Lowering::add_input(std::unique_ptr<const BatchInput> input) {
  plan_.inputs.push_back(std::move(input));
  return plan_.inputs.size() - 1;
}

Region Lowering::add_buffer(Buffer buffer) {
  plan_.buffers.push_back(buffer);
  return {plan_.buffers.size() - 1, 0, buffer.width};
}

Region Lowering::output(std::size_t layer) {
  std::optional<Region>& region = plan_.outputs[layer];
  if (!region) region = add_buffer({Buffer::Kind::kOutput, layer, layers_[layer]->width()});
  return *region;
}

Region Lowering::output_gradient(std::size_t layer) {
  std::optional<Region>& region = output_gradients_[layer];
  if (!region) region = add_buffer({Buffer::Kind::kOutputGradient, layer, layers_[layer]->width()});
  return *region;
}

Region Lowering::scratch(std::size_t layer, std::size_t width) {
  return add_buffer({Buffer::Kind::kScratch, layer, width});
}

Buffer Lowering::of_parameter(Buffer::Kind kind, std::size_t parameter) const {
  const wire::ParameterSpec& spec = parameters_[parameter];
  if (spec.sparse()) return {kind, parameter, spec.dims(1), Buffer::Rows::kTable};
  return {kind, parameter, element_count(spec), Buffer::Rows::kOne};
}

Region Lowering::parameter(std::size_t parameter) {
  std::optional<Region>& region = parameter_values_[parameter];
  if (!region) {
    region = add_buffer(of_parameter(Buffer::Kind::kParameter, parameter));
    region->stride = *parameters_[parameter].dims().rbegin();
  }
  return *region;
}

Region Lowering::parameter_gradient(std::size_t parameter) {
  std::optional<Region>& region = plan_.parameter_gradients[parameter];
  if (!region) {
    region = add_buffer(of_parameter(Buffer::Kind::kParameterGradient, parameter));
    region->stride = *parameters_[parameter].dims().rbegin();
  }
  return *region;
}

Region Lowering::input_floats(std::size_t input, std::size_t width) {
  return add_buffer({Buffer::Kind::kInput, input, width});
}

void Lowering::put_output(std::size_t layer, std::size_t input) {
  PADDLE_CHECK(!plan_.outputs[layer]);
  plan_.outputs[layer] = input_floats(input, layers_[layer]->width());
}

bool Lowering::claim_output_gradient(std::size_t layer) {
  PADDLE_CHECK(is_backward_);
  const bool accumulate = output_gradient_claimed_[layer];
  output_gradient_claimed_[layer] = true;
  return accumulate;
}

bool Lowering::claim_parameter_gradient(std::size_t parameter) {
  PADDLE_CHECK(is_backward_);
  const bool accumulate = parameter_gradient_claimed_[parameter];
  parameter_gradient_claimed_[parameter] = true;
  return accumulate;
}

Region Lowering::zeroed_parameter_gradient(std::size_t parameter) {
  const Region gradient = parameter_gradient(parameter);
  if (!claim_parameter_gradient(parameter)) emit(op::Zero{gradient.buffer});
  return gradient;
}

std::size_t Lowering::add_cost(std::size_t layer) {
  plan_.costs.push_back(layer);
  return plan_.costs.size() - 1;
}

std::size_t Lowering::predictions(std::size_t layer) {
  const auto found = std::ranges::find(plan_.predictions, layer);
  const auto index = static_cast<std::size_t>(found - plan_.predictions.begin());
  if (found == plan_.predictions.end()) plan_.predictions.push_back(layer);
  return index;
}

Plan Lowering::take() {
  is_backward_ = true;
  for (auto emit_backward = backward_.rbegin(); emit_backward != backward_.rend();
       ++emit_backward) {
    (*emit_backward)();
  }
  return std::move(plan_);
}

}  // namespace paddle::nn
