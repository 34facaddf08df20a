// Layers of a network as nodes of a graph, as they are in tests and predictions.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/onnx/graph.h"
#include "engine/onnx/parameters.h"

namespace paddle::onnx {

struct Mapping {
  Graph& graph;
  UsedParameters& parameters;
  std::span<const config::SlotConfig> slots;
  std::map<std::string, Value> outputs = {};  // of the layers so far, and of float slots
};

// Endings of the inputs that belong to a slot with any number of ids for each record.
constexpr const char* kMask = ".mask";        // 1 where there is an id
constexpr const char* kWeights = ".weights";  // of the ids, where the slot has them

// The outputs of a layer that is no cost, {records, width}. Its inputs have theirs. kUsage: the
// type has no nodes, or the layer cannot run.
Result<Value> map_layer(Mapping& mapping, const config::LayerConfig& layer);
// The score for what a cost reads: a probability, one for each class, or the value itself.
Result<Value> map_score(Mapping& mapping, const config::LayerConfig& cost);

// A row of the table of types.
Result<Value> map_embedding(Mapping& mapping, const config::LayerConfig& layer);

// kUsage, with the layer's place in its job.toml.
Error layer_error(const config::LayerConfig& layer, const std::string& message,
                  const std::string& hint);
// The name of a parameter of a layer: its own, or "_<layer>.<part>".
std::string parameter_name(const config::ParameterAttributes& attributes,
                           const config::LayerConfig& layer, const std::string& part);

}  // namespace paddle::onnx
