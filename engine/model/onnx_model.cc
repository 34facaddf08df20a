#include "engine/model/onnx_model.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/version.h"
#include "engine/model/onnx_layers.h"
#include "engine/model/onnx_preparation.h"
#include "engine/model/parameters.h"
#include "engine/model/predictor.h"
#include "engine/nn/network.h"

namespace paddle::onnx {
namespace {

constexpr std::uint64_t kNodesBytesMax = 16U << 20U;  // of all but parameters; usually far less

// The layers that `output` depends on, in their order.
std::vector<const config::LayerConfig*> layers_below(const config::JobConfig& job,
                                                     const std::string& output) {
  std::set<std::string> names{output};
  std::vector<const config::LayerConfig*> found;
  for (auto layer = job.layers.rbegin(); layer != job.layers.rend(); ++layer) {
    if (!names.contains(layer->name)) continue;
    names.insert(layer->inputs.begin(), layer->inputs.end());
    found.push_back(&*layer);
  }
  std::ranges::reverse(found);
  return found;
}

std::set<std::string> input_names(std::span<const config::SlotConfig> slots) {
  std::set<std::string> names;
  for (const config::SlotConfig& slot : slots) {
    names.insert({slot.name, slot.name + kMask, slot.name + kWeights});
  }
  return names;
}

// If `name` is a slot of floats, adds an input of the graph; its value, prepared for the layers, is
// the slot's output.
void add_data(Mapping& mapping, const std::string& name) {
  const auto slot = std::ranges::find(mapping.slots, name, &config::SlotConfig::name);
  if (slot == mapping.slots.end() || slot->width == 0) return;
  const config::DataSlotConfig* const prepared = prepared_slot(mapping.data, name);
  const std::uint32_t width = prepared == nullptr ? slot->width : prepared->width;
  const std::vector<Dimension> shape{Dimension(kRecords), Dimension(width)};
  const Value raw = mapping.graph.input(name, wire::onnx::TensorProto::FLOAT, shape);
  mapping.outputs[name] = prepared == nullptr ? raw : prepare_floats(mapping.graph, *prepared, raw);
}

Status add_layers(Mapping& mapping, const config::JobConfig& job, const std::string& output) {
  for (const config::LayerConfig* const layer : layers_below(job, output)) {
    for (const std::string& input : layer->inputs) add_data(mapping, input);
    PADDLE_TRY(mapping.outputs[layer->name], map_layer(mapping, *layer));
  }
  add_data(mapping, output);
  return {};
}

std::string as_file(wire::onnx::GraphProto graph, const config::JobConfig& job) {
  wire::onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("paddlectl");
  model.set_producer_version(kProgramVersion);
  model.add_opset_import()->set_version(kOpsetVersion);
  graph.set_name(job.name.empty() ? "network" : job.name);
  *model.mutable_graph() = std::move(graph);
  return model.SerializeAsString();
}

}  // namespace

Result<std::string> network_model(const snapshot::SnapshotReader& snapshot,
                                  const config::JobConfig& job, const ModelOptions& options) {
  PADDLE_TRY(const std::string output, inference::output_layer(job, options.layer));
  const auto slots = config::data_slots(job.data);
  PADDLE_TRY(const nn::Network network,
             nn::Network::build(job.layers, slots, job.evaluators, output));
  PADDLE_TRY_STATUS(inference::check_shapes(snapshot, network.parameters()));

  Graph graph(input_names(slots));
  UsedParameters parameters(snapshot, network.parameters(), options.scratch, graph);
  Mapping mapping{.graph = graph, .parameters = parameters, .data = job.data, .slots = slots};
  const std::string name = graph.take_name(options.layer.empty() ? "score" : "values");
  PADDLE_TRY_STATUS(add_layers(mapping, job, output));
  Value last = mapping.outputs.at(output);
  if (options.layer.empty()) {
    PADDLE_TRY(last, map_score(mapping, inference::first_cost(job)));
  }
  graph.output(name, last, network.output_width());
  if (parameters.bytes() + kNodesBytesMax > options.bytes_max) {
    return Error{Errc::kResource,
                 fmt::format("the model would have {} bytes, but an ONNX file has at most {}",
                             parameters.bytes(), options.bytes_max),
                 "--format=npz and --format=safetensors have no such limit"};
  }
  wire::onnx::GraphProto made = graph.take();
  PADDLE_TRY_STATUS(parameters.add_to(made));
  return as_file(std::move(made), job);
}

}  // namespace paddle::onnx
