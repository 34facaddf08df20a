#include "engine/config/layer_keys.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paddle::config {
namespace {

struct Key {
  std::string_view name;
  bool (*is_given)(const LayerConfig&);
};

constexpr auto kKeys = std::to_array<Key>({
    {"activation", [](const LayerConfig& layer) { return !layer.activation.empty(); }},
    {"pooling", [](const LayerConfig& layer) { return !layer.pooling.empty(); }},
    {"length", [](const LayerConfig& layer) { return layer.length != 0; }},
    {"padding_id", [](const LayerConfig& layer) { return layer.padding_id.has_value(); }},
    {"vocabulary", [](const LayerConfig& layer) { return layer.vocabulary != 0; }},
    {"negatives", [](const LayerConfig& layer) { return layer.negatives != 0; }},
    {"distribution", [](const LayerConfig& layer) { return !layer.distribution.empty(); }},
    {"counts", [](const LayerConfig& layer) { return !layer.counts.empty(); }},
    {"rate", [](const LayerConfig& layer) { return layer.rate != 0; }},
    {"epsilon", [](const LayerConfig& layer) { return layer.epsilon != 0; }},
    {"rank", [](const LayerConfig& layer) { return layer.rank != 0; }},
    {"scale", [](const LayerConfig& layer) { return layer.scale != 0; }},
    {"label", [](const LayerConfig& layer) { return !layer.label.empty(); }},
});

}  // namespace

std::span<const TypeKeys> layer_types() {
  static const std::vector<TypeKeys> types{
      {"embedding", {"size"}, {"vocabulary", "pooling", "length", "padding_id"}},
      {"fc", {"size"}, {"activation"}, true},
      {"concat"},
      {"add"},
      {"multiply"},
      {"activation", {}, {"activation"}},
      {"dropout", {}, {"rate"}},
      {"layer_norm", {}, {"epsilon"}},
      {"factorization_machine"},
      {"cosine_similarity", {}, {"scale"}},
      {"cross", {}, {"rank"}, true},
      {"softmax_cross_entropy", {"label"}},
      {"binary_cross_entropy", {"label"}},
      {"squared_error", {"label"}},
      {"nce", {"vocabulary", "label"}, {"negatives", "distribution", "counts"}, true},
      {"negative_sampling", {"vocabulary", "label"}, {"negatives", "distribution", "counts"}},
  };
  return types;
}

std::span<const TypeKeys> evaluator_types() {
  static const std::vector<TypeKeys> types{
      {"auc", {"label"}},
      {"calibration", {"label"}},
      {"classification_error", {"label"}},
      {"gauc", {"label", "group"}},
      {"perplexity"},  // its input is a cost, which has a label
      {"pr_auc", {"label"}},
      {"precision_recall", {"label"}},
      {"rmse", {"label"}},
  };
  return types;
}

bool TypeKeys::reads(std::string_view key) const {
  return std::ranges::find(required, key) != required.end() ||
         std::ranges::find(optional, key) != optional.end();
}

std::optional<std::string> misplaced_key(const LayerConfig& layer) {
  for (const Key& key : kKeys) {
    if (!key.is_given(layer)) continue;
    std::vector<std::string_view> readers;
    for (const TypeKeys& one : layer_types()) {
      if (one.reads(key.name)) readers.push_back(one.name);
    }
    if (std::ranges::find(readers, layer.type) != readers.end()) continue;
    return fmt::format("key '{}' applies to layers of type {}, but this layer has type {}",
                       key.name, fmt::join(readers, ", "), layer.type);
  }
  return {};
}

}  // namespace paddle::config
