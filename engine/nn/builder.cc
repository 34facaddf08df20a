#include "engine/nn/builder.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/named_rows.h"
#include "base/safe_path.h"
#include "base/text.h"

namespace paddle::nn {
namespace {

bool same_shape(const wire::ParameterSpec& a, const wire::ParameterSpec& b) {
  return a.sparse() == b.sparse() && std::ranges::equal(a.dims(), b.dims());
}

bool same_attributes(wire::ParameterSpec a, wire::ParameterSpec b) {
  a.clear_dims();
  b.clear_dims();
  return a.SerializeAsString() == b.SerializeAsString();
}

// Whether the attributes set nothing but the name and `sparse`.
bool all_default(config::ParameterAttributes attributes) {
  const config::ParameterAttributes otherwise;
  attributes.name = otherwise.name;
  attributes.sparse = otherwise.sparse;
  return attributes == otherwise;
}

std::string shape(const wire::ParameterSpec& spec) {
  return fmt::format("{} [{}]", spec.sparse() ? "sparse" : "dense", fmt::join(spec.dims(), ", "));
}

}  // namespace

std::size_t element_count(const wire::ParameterSpec& spec) {
  std::size_t count = 1;
  for (const std::uint64_t dim : spec.dims()) count *= dim;
  return count;
}

Result<std::size_t> ParameterList::declare(const ParameterRequest& request,
                                           const std::string& layer) {
  const std::string& given = request.attributes.name;
  const wire::ParameterSpec spec =
      config::parameter_spec(request.attributes, given.empty() ? request.default_name : given,
                             request.dims, request.initial_std);
  if (!SafePath::parse(spec.name()) || spec.name().find('/') != std::string::npos) {
    return Error{Errc::kUsage,
                 fmt::format("parameter name '{}' cannot be a file name", spec.name())};
  }
  const auto [known, is_new] = index_by_name_.try_emplace(spec.name(), specs_.size());
  if (is_new) {
    specs_.push_back(spec);
    owners_.push_back(layer);
    vocabularies_.push_back(request.vocabulary);
    return known->second;
  }
  const wire::ParameterSpec& first = specs_[known->second];
  const std::string& owner = owners_[known->second];
  if (!same_shape(first, spec)) {
    return Error{Errc::kUsage, fmt::format("parameter '{}' is {} here and {} in layer '{}'",
                                           spec.name(), shape(spec), shape(first), owner)};
  }
  if (!all_default(request.attributes) && !same_attributes(first, spec)) {
    return Error{Errc::kUsage,
                 fmt::format("parameter '{}' has other attributes here than in layer '{}'",
                             spec.name(), owner),
                 "give both the same, or give them in the first layer only"};
  }
  std::uint64_t& vocabulary = vocabularies_[known->second];
  vocabulary =
      vocabulary == 0 || request.vocabulary == 0 ? 0 : std::max(vocabulary, request.vocabulary);
  return known->second;
}

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

const config::LayerConfig& Builder::config_of(const std::string& name) const {
  static const config::LayerConfig kNone;
  const auto found = std::ranges::find(configs_, name, &config::LayerConfig::name);
  return found == configs_.end() ? kNone : *found;
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
  if (!config_of(name).name.empty()) {
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
                                  bool only_ids) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].name != name) continue;
    if (!only_ids || slots_[i].width == 0) return i;
    return error(fmt::format("{} '{}' is a slot of floats, it must be one of ids", key, name));
  }
  const auto names = row_names(std::span(slots_));
  const std::string hint = fmt::format("slots are {}", fmt::join(names, ", "));
  if (!config_of(name).name.empty()) {
    return error(fmt::format("{} '{}' is a layer, it must be a data slot", key, name), hint);
  }
  return error(fmt::format("unknown {} '{}'{}", key, name, did_you_mean(name, names)), hint);
}

std::optional<std::size_t> Builder::weight_slot() const {
  const auto found = std::ranges::find_if(slots_, &config::SlotConfig::is_weight);
  if (found == slots_.end()) return {};
  return static_cast<std::size_t>(found - slots_.begin());
}

Result<std::size_t> Builder::parameter(const ParameterRequest& request) {
  auto declared = parameters_.declare(request, config().name);
  if (!declared) return error(declared.error().message, declared.error().hint);
  return *declared;
}

Sampler Builder::unigram_sampler() {
  const std::span<const std::uint64_t> counts = current_->counts;
  const auto known = std::ranges::find_if(
      samplers_, [&](const auto& each) { return std::ranges::equal(each.first, counts); });
  if (known != samplers_.end()) return known->second;
  return samplers_.emplace_back(counts, Sampler::unigram(counts)).second;
}

Result<const kernels::Activation*> Builder::activation() const {
  const std::string& name = config().activation;
  const auto* const found = kernels::find_activation(name.empty() ? "identity" : name);
  if (found != nullptr) return found;
  return error(
      fmt::format("unknown activation '{}'", name),
      fmt::format("activations are {}", fmt::join(row_names(kernels::activations()), ", ")));
}

bool Builder::is_read_by(const std::string& name, std::string_view type) const {
  return std::ranges::any_of(configs_, [&](const config::LayerConfig& layer) {
    return layer.type == type && !layer.inputs.empty() && layer.inputs[0] == name;
  });
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
