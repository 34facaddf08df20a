// The evaluators of a network: those that were asked for, or those that go with its costs.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/nn/builder.h"

namespace paddle::nn {
namespace {

struct Kind {
  std::string_view type;
  EvaluatorResult (*make)(Builder&);
};

constexpr std::array<Kind, config::kEvaluatorTypes.size()> kKinds{
    {{"auc", make_auc},
     {"classification_error", make_classification_error},
     {"perplexity", make_perplexity},
     {"precision_recall", make_precision_recall},
     {"rmse", make_rmse}}};

}  // namespace

Status Builder::build_evaluators(std::vector<config::LayerConfig> evaluators) {
  role_ = "evaluator";
  if (evaluators.empty()) evaluators = usual_evaluators();
  for (const config::LayerConfig& config : evaluators) {
    current_ = &config;
    PADDLE_TRY_STATUS(build_evaluator());
    for (const auto& layer : layers_) {
      if (std::ranges::find(config.inputs, layer->name()) != config.inputs.end()) {
        ++consumers_[layer->index()];
      }
    }
  }
  current_ = nullptr;
  for (auto& layer : layers_) layer->place_inputs(layers_, consumers_);
  return {};
}

Status Builder::build_evaluator() {
  for (const auto& earlier : evaluators_) {
    if (earlier->name() == config().name) return error("another evaluator has the same name");
  }
  std::vector<std::string_view> types;
  for (const Kind& kind : kKinds) {
    types.push_back(kind.type);
    if (kind.type != config().type) continue;
    PADDLE_TRY(std::unique_ptr<Evaluator> made, kind.make(*this));
    evaluators_.push_back(std::move(made));
    return {};
  }
  return error(fmt::format("unknown type '{}'{}", config().type, suggest(config().type, types)),
               fmt::format("types are {}", fmt::join(types, ", ")));
}

// A second cost of one kind gets "<type>_<cost>", so that no name comes twice.
std::vector<config::LayerConfig> Builder::usual_evaluators() const {
  std::vector<config::LayerConfig> found;
  const auto add = [&](const config::LayerConfig& cost, std::string_view type, bool of_cost) {
    config::LayerConfig evaluator;
    evaluator.name = type;
    for (const config::LayerConfig& other : found) {
      if (other.name == type) evaluator.name = fmt::format("{}_{}", type, cost.name);
    }
    evaluator.type = type;
    evaluator.inputs = of_cost ? std::vector<std::string>{cost.name} : cost.inputs;
    if (!of_cost) evaluator.label = cost.label;
    found.push_back(std::move(evaluator));
  };
  for (const config::LayerConfig& layer : configs_) {
    if (layer.type == "softmax_cross_entropy") {
      add(layer, "classification_error", false);
      add(layer, "perplexity", true);
    } else if (layer.type == "squared_error") {
      add(layer, "rmse", false);
    } else if (layer.type == "binary_cross_entropy") {
      const auto input = find_layer(layer.inputs[0]);
      if (input && input->width == 1) add(layer, "auc", false);
    }
  }
  return found;
}

}  // namespace paddle::nn
