#include "engine/nn/network/network_builder.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/named_rows.h"
#include "engine/config/layer_keys.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

// Calls the maker of the builder's current type.
template <class Made>
Made make(Builder& builder, std::span<const Maker<Made>> makers) {
  const std::string& type = builder.config().type;
  if (const Maker<Made>* const maker = find_row(makers, type)) return maker->make(builder);
  const auto types = row_names(makers);
  return builder.error(fmt::format("unknown type '{}'{}", type, did_you_mean(type, types)),
                       fmt::format("types are {}", fmt::join(types, ", ")));
}

}  // namespace

Status NetworkBuilder::build_layers(const std::string& output) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].width > 0) add(make_data(slots_[i], index(), i));
  }
  data_layers_ = index();
  for (const config::LayerConfig& config : configs_) {
    begin(config, "layer");
    PADDLE_TRY_STATUS(build_layer(config));
  }
  if (!output.empty()) PADDLE_TRY_STATUS(add_reader(output));
  PADDLE_TRY_STATUS(check_use());
  for (const auto& layer : layers()) layer->set_consumers(consumers());
  return {};
}

Status NetworkBuilder::build_layer(const config::LayerConfig& config) {
  if (config.name.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("layer number {} has no name", index() - data_layers_ + 1)};
  }
  for (const config::SlotConfig& slot : slots_) {
    if (slot.name == config.name) return error("a data slot has the same name");
  }
  for (const auto& earlier : layers()) {
    if (earlier->name() == config.name) return error("another layer has the same name");
  }
  const bool is_known = find_row(config::layer_types(), config.type) != nullptr;
  const auto complaint = is_known ? config::misplaced_key(config) : std::nullopt;
  if (complaint) return error(*complaint);
  PADDLE_TRY(std::unique_ptr<Layer> made, make<LayerResult>(*this, kLayerMakers));
  add(std::move(made));
  return {};
}

Status NetworkBuilder::add_reader(const std::string& output) {
  std::vector<std::string_view> names;
  for (const auto& layer : layers()) {
    const bool has_output = layer->width() > 0;
    if (has_output) names.push_back(layer->name());
    if (layer->name() != output) continue;
    if (has_output) {
      add_consumer(layer->index());
      return {};
    }
    return Error{Errc::kUsage, fmt::format("layer '{}' is a cost, which has no output", output),
                 fmt::format("layers with outputs are {}", fmt::join(names, ", "))};
  }
  return Error{Errc::kUsage, fmt::format("no layer '{}'{}", output, did_you_mean(output, names)),
               fmt::format("layers with outputs are {}", fmt::join(names, ", "))};
}

// Every output must be read, and there must be a cost.
Status NetworkBuilder::check_use() {
  const auto all = layers();
  bool has_cost = false;
  for (std::size_t i = data_layers_; i < all.size(); ++i) {
    const bool is_cost = all[i]->width() == 0;
    has_cost = has_cost || is_cost;
    if (!is_cost && consumers()[i] == 0) {
      begin(configs_[i - data_layers_], "layer");
      return error("no other layer reads it",
                   "name it in the input of another layer, or remove it");
    }
  }
  if (has_cost) return {};
  std::vector<std::string_view> types;
  for (const config::TypeKeys& type : config::layer_types()) {
    if (type.reads("label")) types.push_back(type.name);
  }
  return Error{Errc::kUsage, "the network has no cost layer",
               fmt::format("end it with a layer of type {} or {}",
                           fmt::join(types.begin(), types.end() - 1, ", "), types.back())};
}

Status NetworkBuilder::build_evaluators(std::vector<config::LayerConfig> evaluators) {
  if (evaluators.empty()) evaluators = default_evaluators();
  std::vector<std::uint32_t> readers(consumers().begin(), consumers().end());
  for (const config::LayerConfig& config : evaluators) {
    begin(config, "evaluator");
    PADDLE_TRY_STATUS(build_evaluator(config));
    for (const auto& layer : layers()) {
      if (std::ranges::find(config.inputs, layer->name()) != config.inputs.end()) {
        ++readers[layer->index()];
      }
    }
  }
  for (const auto& layer : layers()) layer->redirect_inputs(layers(), readers);
  return {};
}

Status NetworkBuilder::build_evaluator(const config::LayerConfig& config) {
  for (const auto& earlier : evaluators_) {
    if (earlier->name() == config.name) {
      return error("another evaluator has the same name");
    }
  }
  PADDLE_TRY(std::unique_ptr<Evaluator> made, make<EvaluatorResult>(*this, kEvaluatorMakers));
  evaluators_.push_back(std::move(made));
  return {};
}

// A second evaluator of one type is called "<type>_<cost>", which no other is.
std::vector<config::LayerConfig> NetworkBuilder::default_evaluators() const {
  std::vector<config::LayerConfig> found;
  for (std::size_t i = 0; i < configs_.size(); ++i) {
    const config::LayerConfig& cost = configs_[i];
    for (const std::string_view type : layers()[data_layers_ + i]->default_evaluators()) {
      config::LayerConfig evaluator;
      evaluator.type = evaluator.name = type;
      for (const config::LayerConfig& other : found) {
        if (other.name == type) evaluator.name = fmt::format("{}_{}", type, cost.name);
      }
      const bool reads_cost = !find_row(config::evaluator_types(), type)->reads("label");
      evaluator.inputs = reads_cost ? std::vector<std::string>{cost.name} : cost.inputs;
      if (!reads_cost) evaluator.label = cost.label;
      found.push_back(std::move(evaluator));
    }
  }
  return found;
}

}  // namespace paddle::nn
