#include "engine/nn/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paddle::nn {

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string near = nearest(name, candidates);
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
}

void Builder::begin(const config::LayerConfig& config, std::string_view role) {
  current_ = &config;
  role_ = role;
}

void Builder::add(std::unique_ptr<Layer> layer) {
  layers_.push_back(std::move(layer));
  consumers_.push_back(0);
}

std::vector<std::string_view> Builder::slot_names() const {
  std::vector<std::string_view> names;
  for (const config::SlotConfig& slot : slots_) names.push_back(slot.name);
  return names;
}

const config::LayerConfig* Builder::find_config(const std::string& name) const {
  for (const config::LayerConfig& config : configs_) {
    if (config.name == name) return &config;
  }
  return nullptr;
}

std::string Builder::subject() const {
  return fmt::format("{} '{}'", role_, config().name);
}

Error Builder::error(std::string message, std::string hint) const {
  const std::string& place = config().location;
  return Error{Errc::kUsage,
               fmt::format("{}{}{}: {}", place, place.empty() ? "" : ": ", subject(), message),
               std::move(hint)};
}

Result<LayerInput> Builder::layer_input(const std::string& name) {
  PADDLE_TRY(const LayerInput input, find_layer(name));
  if (input.width == 0) {
    return error(fmt::format("input '{}' is a cost layer, which has no output", name));
  }
  ++consumers_[input.layer];
  return input;
}

Result<LayerInput> Builder::find_layer(const std::string& name) const {
  std::vector<std::string_view> candidates;
  for (const auto& layer : layers_) {
    if (layer->name() == name) {
      return LayerInput{layer->index(), layer->width(), layer->gradient_width()};
    }
    candidates.push_back(layer->name());
  }
  if (name == config().name) return error("it is its own input");
  if (find_config(name) != nullptr) {
    return error(fmt::format("input '{}' is defined further down", name),
                 fmt::format("move layer '{}' above layer '{}'", name, config().name));
  }
  for (const config::SlotConfig& slot : slots_) {
    if (slot.name == name) {
      return error(fmt::format("input '{}' is a data slot of ids", name),
                   "put a layer of type embedding between them");
    }
  }
  return error(fmt::format("unknown input '{}'{}", name, did_you_mean(name, candidates)),
               "inputs are the names of earlier layers and of float slots");
}

Result<std::vector<LayerInput>> Builder::layer_inputs() {
  if (config().inputs.empty()) return error("key 'input' is missing");
  std::vector<LayerInput> inputs;
  for (const std::string& name : config().inputs) {
    PADDLE_TRY(const LayerInput input, layer_input(name));
    inputs.push_back(input);
  }
  return inputs;
}

Result<std::vector<LayerInput>> Builder::equal_inputs(std::size_t at_least) {
  PADDLE_TRY(std::vector<LayerInput> inputs, layer_inputs());
  if (inputs.size() < at_least) {
    return error(fmt::format("takes at least {} inputs, {} is given", at_least, inputs.size()));
  }
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].width == inputs[0].width) continue;
    return error(fmt::format("input '{}' has width {}, input '{}' has width {}", config().inputs[0],
                             inputs[0].width, config().inputs[i], inputs[i].width));
  }
  PADDLE_TRY_STATUS(check_size(inputs[0].width));
  return inputs;
}

Result<std::size_t> Builder::slot(const std::string& name, std::string_view key,
                                  std::optional<SlotKind> kind) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].name != name) continue;
    const bool is_ids = slots_[i].width == 0;
    if (!kind || is_ids == (*kind == SlotKind::kIds)) return i;
    return error(fmt::format("{} '{}' is a slot of {}, it must be one of {}", key, name,
                             is_ids ? "ids" : "floats", is_ids ? "floats" : "ids"));
  }
  const std::string hint = fmt::format("slots are {}", fmt::join(slot_names(), ", "));
  if (find_config(name) != nullptr) {
    return error(fmt::format("{} '{}' is a layer, it must be a data slot", key, name), hint);
  }
  return error(fmt::format("unknown {} '{}'{}", key, name, did_you_mean(name, slot_names())), hint);
}

Result<std::size_t> Builder::parameter(const ParameterRequest& request) {
  auto declared = parameters_.declare(request, config().name);
  if (!declared) return error(declared.error().message, declared.error().hint);
  return *declared;
}

Result<const kernels::Activation*> Builder::activation() const {
  const std::string& name = config().activation;
  const auto* const found = kernels::find_activation(name.empty() ? "identity" : name);
  if (found != nullptr) return found;
  return error(fmt::format("unknown activation '{}'", name),
               fmt::format("activations are {}", fmt::join(kernels::activation_names(), ", ")));
}

std::string Builder::activation_of(const std::string& layer) const {
  const config::LayerConfig* const found = find_config(layer);
  return found == nullptr ? "" : found->activation;
}

std::string Builder::type_of(const std::string& layer) const {
  const config::LayerConfig* const found = find_config(layer);
  return found == nullptr ? "" : found->type;
}

Status Builder::check_input_count(std::size_t at_least, std::size_t at_most) const {
  const std::size_t given = config().inputs.size();
  if (given == 0 && at_least > 0) return error("key 'input' is missing");
  if (given < at_least) return error(fmt::format("takes {} inputs, {} is given", at_least, given));
  if (given > at_most) {
    return error(
        fmt::format("takes {} input{}, {} are given", at_most, at_most == 1 ? "" : "s", given),
        at_most == 1 ? "join several with a layer of type concat" : "");
  }
  return {};
}

Status Builder::check_size(std::size_t width) const {
  if (config().size == 0 || config().size == width) return {};
  return error(fmt::format("size is {}, its inputs have width {}", config().size, width),
               "remove the key 'size'");
}

}  // namespace paddle::nn
