#include "engine/nn/builder.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/safe_path.h"
#include "base/text.h"

namespace paddle::nn {
namespace {

struct Kind {
  std::string_view type;
  LayerResult (*make)(Builder&);
};

constexpr std::array<Kind, config::kLayerTypes.size()> kKinds{
    {{"embedding", make_embedding},
     {"fc", make_fc},
     {"concat", make_concat},
     {"add", make_add},
     {"multiply", make_multiply},
     {"activation", make_activation},
     {"dropout", make_dropout},
     {"layer_norm", make_layer_norm},
     {"factorization_machine", make_factorization_machine},
     {"cosine_similarity", make_cosine_similarity},
     {"softmax_cross_entropy", make_softmax_cross_entropy},
     {"binary_cross_entropy", make_binary_cross_entropy},
     {"squared_error", make_squared_error},
     {"nce", make_nce},
     {"negative_sampling", make_negative_sampling}}};

// A key, and the types of layer that read it.
struct Rule {
  bool given;
  std::string_view key;
  std::vector<std::string_view> types;
};

// Everything but the shape.
bool same_attributes(wire::ParameterSpec a, wire::ParameterSpec b) {
  a.clear_dims();
  b.clear_dims();
  return a.SerializeAsString() == b.SerializeAsString();
}

// Nothing is given but where the parameter is.
bool all_default(config::ParameterAttributes attributes) {
  const config::ParameterAttributes otherwise;
  attributes.name = otherwise.name;
  attributes.sparse = otherwise.sparse;
  return attributes == otherwise;
}

}  // namespace

Status Builder::build() {
  add_data_layers();
  for (const config::LayerConfig& config : configs_) {
    current_ = &config;
    PADDLE_TRY_STATUS(build_layer());
    consumers_.push_back(0);
  }
  bool has_cost = false;
  for (std::size_t i = data_layers_; i < layers_.size(); ++i) {
    const bool is_cost = layers_[i]->width() == 0;
    has_cost = has_cost || is_cost;
    if (!is_cost && consumers_[i] == 0) {
      current_ = &configs_[i - data_layers_];
      return error("no other layer reads it",
                   "name it in the input of another layer, or remove it");
    }
  }
  if (!has_cost) {
    return Error{Errc::kUsage, "the network has no cost layer",
                 "end it with a layer of type softmax_cross_entropy, binary_cross_entropy, "
                 "squared_error, nce or negative_sampling"};
  }
  for (auto& layer : layers_) layer->set_consumers(consumers_);
  return {};
}

void Builder::add_data_layers() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].width == 0) continue;
    layers_.push_back(make_data(slots_[i], layers_.size(), i));
    consumers_.push_back(0);
  }
  data_layers_ = layers_.size();
}

std::vector<std::string_view> Builder::slot_names() const {
  std::vector<std::string_view> names;
  for (const config::SlotConfig& slot : slots_) names.push_back(slot.name);
  return names;
}

Status Builder::build_layer() {
  const config::LayerConfig& layer = config();
  if (layer.name.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("layer number {} has no name", index() - data_layers_ + 1), ""};
  }
  for (const config::SlotConfig& slot : slots_) {
    if (slot.name == layer.name) return error("a data slot has the same name");
  }
  for (const auto& earlier : layers_) {
    if (earlier->name() == layer.name) return error("another layer has the same name");
  }
  std::vector<std::string_view> types;
  for (const Kind& kind : kKinds) {
    types.push_back(kind.type);
    if (kind.type != layer.type) continue;
    PADDLE_TRY_STATUS(check_keys());
    PADDLE_TRY(std::unique_ptr<Layer> made, kind.make(*this));
    layers_.push_back(std::move(made));
    return {};
  }
  return error(fmt::format("unknown type '{}'{}", layer.type, suggest(layer.type, types)),
               fmt::format("types are {}", fmt::join(types, ", ")));
}

Status Builder::check_keys() const {
  const config::LayerConfig& layer = config();
  const std::vector<Rule> rules{
      {!layer.activation.empty(), "activation", {"fc", "activation"}},
      {!layer.pooling.empty(), "pooling", {"embedding"}},
      {layer.length != 0, "length", {"embedding"}},
      {layer.padding_id.has_value(), "padding_id", {"embedding"}},
      {layer.vocabulary != 0, "vocabulary", {"embedding", "nce", "negative_sampling"}},
      {layer.negatives != 0, "negatives", {"nce", "negative_sampling"}},
      {!layer.distribution.empty(), "distribution", {"nce", "negative_sampling"}},
      {!layer.counts.empty(), "counts", {"nce", "negative_sampling"}},
      {layer.rate != 0, "rate", {"dropout"}},
      {layer.epsilon != 0, "epsilon", {"layer_norm"}},
      {layer.scale != 0, "scale", {"cosine_similarity"}},
      {!layer.label.empty(),
       "label",
       {"softmax_cross_entropy", "binary_cross_entropy", "squared_error", "nce",
        "negative_sampling"}}};
  for (const Rule& rule : rules) {
    if (rule.given && std::ranges::find(rule.types, layer.type) == rule.types.end()) {
      return error(fmt::format("key '{}' is for layers of type {}, this one is of type {}",
                               rule.key, fmt::join(rule.types, ", "), layer.type));
    }
  }
  return {};
}

std::string Builder::what() const {
  return fmt::format("{} '{}'", role_, config().name);
}

Error Builder::error(std::string message, std::string hint) const {
  const std::string& place = config().place;
  return Error{Errc::kUsage,
               fmt::format("{}{}{}: {}", place, place.empty() ? "" : ": ", what(), message),
               std::move(hint)};
}

std::string Builder::suggest(std::string_view name,
                             std::vector<std::string_view> candidates) const {
  const std::string near = nearest(name, candidates);
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
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
  for (std::size_t i = index() - data_layers_ + 1; i < configs_.size(); ++i) {
    if (configs_[i].name == name) {
      return error(fmt::format("input '{}' is defined further down", name),
                   fmt::format("move layer '{}' above layer '{}'", name, config().name));
    }
  }
  for (const config::SlotConfig& slot : slots_) {
    if (slot.name == name) {
      return error(fmt::format("input '{}' is a data slot of ids", name),
                   "put a layer of type embedding between them");
    }
  }
  return error(fmt::format("unknown input '{}'{}", name, suggest(name, candidates)),
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
  PADDLE_TRY_STATUS(size_is(inputs[0].width));
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
  for (const config::LayerConfig& other : configs_) {
    if (other.name == name) {
      return error(fmt::format("{} '{}' is a layer, it must be a data slot", key, name),
                   fmt::format("slots are {}", fmt::join(slot_names(), ", ")));
    }
  }
  return error(fmt::format("unknown {} '{}'{}", key, name, suggest(name, slot_names())),
               fmt::format("slots are {}", fmt::join(slot_names(), ", ")));
}

Result<std::size_t> Builder::parameter(const ParameterRequest& request) {
  const config::ParameterAttributes& attributes = request.attributes;
  wire::ParameterSpec spec;
  spec.set_name(attributes.name.empty() ? request.default_name : attributes.name);
  for (const std::uint64_t dim : request.dims) spec.add_dims(dim);
  spec.set_sparse(attributes.sparse);
  spec.set_initial_mean(attributes.initial_mean);
  spec.set_initial_std(attributes.initial_std < 0 ? static_cast<float>(request.initial_std)
                                                  : attributes.initial_std);
  spec.set_learning_rate(attributes.learning_rate);
  if (attributes.l1) spec.set_l1(*attributes.l1);
  if (attributes.l2) spec.set_l2(*attributes.l2);
  if (attributes.clip_value) spec.set_clip_value(*attributes.clip_value);
  if (attributes.clip_norm) spec.set_clip_norm(*attributes.clip_norm);
  spec.set_is_static(attributes.is_static);
  if (attributes.sparse) {
    wire::TablePolicy& policy = *spec.mutable_table();
    policy.set_entry_count(attributes.table.entry_count);
    policy.set_entry_probability(attributes.table.entry_probability);
    policy.set_expire_passes(attributes.table.expire_passes);
    policy.set_bytes_max(attributes.table.bytes_max);
    policy.set_evict(attributes.table.evict);
    for (const auto& one : attributes.table.entry) {
      wire::SlotEntry& entry = *policy.add_entry();
      entry.set_slot(one.slot);
      entry.set_entry_count(one.count);
      entry.set_entry_probability(one.probability);
    }
    if (attributes.table.shrink) {
      wire::ShrinkPolicy& shrink = *policy.mutable_shrink();
      shrink.set_label(attributes.table.shrink->label);
      shrink.set_decay(attributes.table.shrink->decay);
      shrink.set_threshold(attributes.table.shrink->threshold);
      shrink.set_nonclick_coefficient(attributes.table.shrink->nonclick_coefficient);
      shrink.set_click_coefficient(attributes.table.shrink->click_coefficient);
    }
  }
  if (!SafePath::parse(spec.name()) || spec.name().find('/') != std::string::npos) {
    return error(fmt::format("parameter name '{}' cannot be a file name", spec.name()));
  }
  const auto [known, is_new] = parameter_by_name_.try_emplace(spec.name(), parameters_.size());
  if (is_new) {
    parameters_.push_back(spec);
    parameter_owners_.push_back(config().name);
    return known->second;
  }
  const wire::ParameterSpec& first = parameters_[known->second];
  const std::string& owner = parameter_owners_[known->second];
  const bool same_shape =
      std::equal(first.dims().begin(), first.dims().end(), spec.dims().begin(), spec.dims().end());
  if (!same_shape || first.sparse() != spec.sparse()) {
    return error(fmt::format("parameter '{}' is {} [{}] here and {} [{}] in layer '{}'",
                             spec.name(), spec.sparse() ? "sparse" : "dense",
                             fmt::join(spec.dims(), ", "), first.sparse() ? "sparse" : "dense",
                             fmt::join(first.dims(), ", "), owner));
  }
  if (!all_default(attributes) && !same_attributes(first, spec)) {
    return error(fmt::format("parameter '{}' has other attributes here than in layer '{}'",
                             spec.name(), owner),
                 "give both the same, or give them in the first layer only");
  }
  return known->second;
}

Result<kernels::Activation> Builder::activation() const {
  using kernels::Activation;
  const std::string& name = config().activation;
  if (name.empty() || name == "identity") return Activation::kIdentity;
  if (name == "sigmoid") return Activation::kSigmoid;
  if (name == "relu") return Activation::kRelu;
  if (name == "tanh") return Activation::kTanh;
  if (name == "softmax") return Activation::kSoftmax;
  return error(fmt::format("unknown activation '{}'", name),
               "activations are identity, sigmoid, relu, tanh, softmax");
}

std::string Builder::activation_of(const std::string& layer) const {
  for (const config::LayerConfig& other : configs_) {
    if (other.name == layer) return other.activation;
  }
  return "";
}

std::string Builder::type_of(const std::string& layer) const {
  for (const config::LayerConfig& other : configs_) {
    if (other.name == layer) return other.type;
  }
  return "";
}

Status Builder::need_inputs(std::size_t at_least, std::size_t at_most) const {
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

Status Builder::size_is(std::size_t width) const {
  if (config().size == 0 || config().size == width) return {};
  return error(fmt::format("size is {}, its inputs have width {}", config().size, width),
               "remove the key 'size'");
}

}  // namespace paddle::nn
