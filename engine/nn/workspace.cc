#include "engine/nn/workspace.h"

#include <algorithm>

namespace paddle::nn {

void Workspace::clear_gradients() {
  for (Gradient& gradient : gradients_) gradient.written = false;
}

void Workspace::set_gradient_buffer(std::size_t parameter, std::span<float> buffer) {
  if (gradients_.size() <= parameter) gradients_.resize(parameter + 1);
  gradients_[parameter].buffer = buffer;
}

float* LayerAccess::zeroed_parameter_gradient(std::size_t parameter) {
  const std::span<float> values = workspace_.gradients_[parameter].values();
  if (claim_parameter_gradient(parameter) == 0.0F) std::fill(values.begin(), values.end(), 0.0F);
  return values.data();
}

float* LayerAccess::scratch(std::size_t layer, std::size_t count) {
  Floats& values = workspace_.layers_[layer].scratch;
  if (values.size() < count) values.resize(count);
  return values.data();
}

}  // namespace paddle::nn
