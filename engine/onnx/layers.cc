#include "engine/onnx/layers.h"

#include <array>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/named_rows.h"

namespace paddle::onnx {
namespace {

using config::LayerConfig;

constexpr const char* kOtherFormats =
    "--format=npz and --format=safetensors hold the parameters of every network";

std::vector<Value> inputs_of(const Mapping& mapping, const LayerConfig& layer) {
  std::vector<Value> inputs;
  for (const std::string& name : layer.inputs) inputs.push_back(mapping.outputs.at(name));
  return inputs;
}

Value gelu(Graph& graph, const Value& x) {
  const Value ratio =
      graph.node("Mul", {x, graph.scalar(static_cast<float>(1 / std::numbers::sqrt2))});
  const Value twice =
      graph.node("Add", {graph.node("Erf", {ratio}), graph.scalar(1.0F)});  // the distribution's
  return graph.node("Mul", {graph.node("Mul", {x, twice}), graph.scalar(0.5F)});
}

Result<Value> activate(Graph& graph, const LayerConfig& layer, const Value& x) {
  const std::string& name = layer.activation;
  if (name.empty() || name == "identity") return x;
  if (name == "sigmoid") return graph.node("Sigmoid", {x});
  if (name == "relu") return graph.node("Relu", {x});
  if (name == "tanh") return graph.node("Tanh", {x});
  if (name == "softmax") return graph.node("Softmax", {x}, {{"axis", 1}});
  if (name == "gelu") return gelu(graph, x);
  return layer_error(layer, fmt::format("activation '{}' has no nodes in ONNX", name),
                     kOtherFormats);
}

// The inputs one after another into one.
Value fold(Graph& graph, std::string_view type, const std::vector<Value>& inputs) {
  Value all = inputs.front();
  for (std::size_t i = 1; i < inputs.size(); ++i) all = graph.node(type, {all, inputs[i]});
  return all;
}

// x * parameter, or x + parameter.
Result<Value> with_parameter(Mapping& mapping, std::string_view type, const Value& x,
                             const std::string& name) {
  PADDLE_TRY(const Value value, mapping.parameters.dense(name));
  return mapping.graph.node(type, {x, value});
}

Result<Value> map_fc(Mapping& mapping, const LayerConfig& layer) {
  const std::vector<Value> inputs = inputs_of(mapping, layer);
  std::vector<Value> products;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PADDLE_TRY(const Value product,
               with_parameter(mapping, "MatMul", inputs[i],
                              parameter_name(layer.weight, layer, fmt::format("w{}", i))));
    products.push_back(product);
  }
  Value sum = fold(mapping.graph, "Add", products);
  if (layer.has_bias) {
    PADDLE_TRY(sum,
               with_parameter(mapping, "Add", sum, parameter_name(layer.bias, layer, "wbias")));
  }
  return activate(mapping.graph, layer, sum);
}

Result<Value> map_concat(Mapping& mapping, const LayerConfig& layer) {
  return mapping.graph.node("Concat", inputs_of(mapping, layer), {{"axis", 1}});
}

Result<Value> map_add(Mapping& mapping, const LayerConfig& layer) {
  return fold(mapping.graph, "Add", inputs_of(mapping, layer));
}

Result<Value> map_multiply(Mapping& mapping, const LayerConfig& layer) {
  return fold(mapping.graph, "Mul", inputs_of(mapping, layer));
}

Result<Value> map_activation(Mapping& mapping, const LayerConfig& layer) {
  return activate(mapping.graph, layer, mapping.outputs.at(layer.inputs.front()));
}

// Only training drops.
Result<Value> map_dropout(Mapping& mapping, const LayerConfig& layer) {
  return mapping.outputs.at(layer.inputs.front());
}

Result<Value> map_layer_norm(Mapping& mapping, const LayerConfig& layer) {
  constexpr float kEpsilonDefault = 1e-5F;
  Graph& graph = mapping.graph;
  const Value x = mapping.outputs.at(layer.inputs.front());
  const std::vector<Attribute> over_columns{{"axes", 0, {1}}};
  const Value shifted = graph.node("Sub", {x, graph.node("ReduceMean", {x}, over_columns)});
  const Value squares = graph.node("Mul", {shifted, shifted});
  const Value variance =
      graph.node("Add", {graph.node("ReduceMean", {squares}, over_columns),
                         graph.scalar(layer.epsilon > 0 ? layer.epsilon : kEpsilonDefault)});
  const Value normal = graph.node("Div", {shifted, graph.node("Sqrt", {variance})});
  PADDLE_TRY(const Value gained,
             with_parameter(mapping, "Mul", normal, parameter_name(layer.weight, layer, "w0")));
  return with_parameter(mapping, "Add", gained, parameter_name(layer.bias, layer, "wbias"));
}

Value row_sum(Graph& graph, const Value& x) {
  return graph.node("ReduceSum", {x, graph.list({1})}, {{"keepdims", 1}});
}

// 1/2 sum_c ((sum_f v_fc)^2 - sum_f v_fc^2)
Result<Value> map_factorization_machine(Mapping& mapping, const LayerConfig& layer) {
  Graph& graph = mapping.graph;
  const Value row = graph.node("Concat", inputs_of(mapping, layer), {{"axis", 1}});
  const auto factors = static_cast<std::int64_t>(layer.size);
  const Value fields = graph.node("Reshape", {row, graph.list({0, -1, factors})});
  const std::vector<Attribute> flat{{"keepdims", 0}};
  const Value sums = graph.node("ReduceSum", {fields, graph.list({1})}, flat);
  const Value squares =
      graph.node("ReduceSum", {graph.node("Mul", {fields, fields}), graph.list({1})}, flat);
  const Value pairs = graph.node("Sub", {graph.node("Mul", {sums, sums}), squares});
  return graph.node("Mul", {row_sum(graph, pairs), graph.scalar(0.5F)});
}

// scale * a b / (|a| |b|), 0 where a norm is 0
Result<Value> map_cosine_similarity(Mapping& mapping, const LayerConfig& layer) {
  Graph& graph = mapping.graph;
  const std::vector<Value> inputs = inputs_of(mapping, layer);
  const auto dot = [&](const Value& a, const Value& b) {
    return row_sum(graph, graph.node("Mul", {a, b}));
  };
  const auto norm = [&](const Value& x) { return graph.node("Sqrt", {dot(x, x)}); };
  const Value norms = graph.node("Mul", {norm(inputs[0]), norm(inputs[1])});
  const Value is_zero = graph.node("Equal", {norms, graph.scalar(0.0F)});
  const Value divisor = graph.node("Where", {is_zero, graph.scalar(1.0F), norms});
  const Value cosine = graph.node("Div", {dot(inputs[0], inputs[1]), divisor});
  return graph.node("Mul", {cosine, graph.scalar(layer.scale != 0 ? layer.scale : 1.0F)});
}

// x0 * (x W + b) + x, where W may be V U
Result<Value> map_cross(Mapping& mapping, const LayerConfig& layer) {
  const std::vector<Value> inputs = inputs_of(mapping, layer);
  const Value& x = inputs.back();
  PADDLE_TRY(Value product,
             with_parameter(mapping, "MatMul", x, parameter_name(layer.weight, layer, "w0")));
  if (layer.rank > 0) {
    PADDLE_TRY(product, with_parameter(mapping, "MatMul", product,
                                       parameter_name(layer.weight, layer, "w1")));
  }
  if (layer.has_bias) {
    PADDLE_TRY(product,
               with_parameter(mapping, "Add", product, parameter_name(layer.bias, layer, "wbias")));
  }
  return mapping.graph.node("Add", {mapping.graph.node("Mul", {inputs.front(), product}), x});
}

struct LayerRow {
  std::string_view name;  // as in engine/nn/makers.h
  Result<Value> (*map)(Mapping&, const LayerConfig&);
};

constexpr auto kLayers =
    std::to_array<LayerRow>({{"embedding", map_embedding},
                             {"fc", map_fc},
                             {"concat", map_concat},
                             {"add", map_add},
                             {"multiply", map_multiply},
                             {"activation", map_activation},
                             {"dropout", map_dropout},
                             {"layer_norm", map_layer_norm},
                             {"factorization_machine", map_factorization_machine},
                             {"cosine_similarity", map_cosine_similarity},
                             {"cross", map_cross}});

}  // namespace

Error layer_error(const LayerConfig& layer, const std::string& message, const std::string& hint) {
  const std::string& place = layer.location;
  return {Errc::kUsage,
          fmt::format("{}{}layer '{}': {}", place, place.empty() ? "" : ": ", layer.name, message),
          hint};
}

std::string parameter_name(const config::ParameterAttributes& attributes, const LayerConfig& layer,
                           const std::string& part) {
  return attributes.name.empty() ? fmt::format("_{}.{}", layer.name, part) : attributes.name;
}

Result<Value> map_layer(Mapping& mapping, const LayerConfig& layer) {
  const std::span<const LayerRow> rows(kLayers);
  const LayerRow* const row = find_row(rows, layer.type);
  if (row == nullptr) {
    return layer_error(layer, fmt::format("type {} has no nodes in ONNX", layer.type),
                       kOtherFormats);
  }
  mapping.graph.set_scope(layer.name);
  return row->map(mapping, layer);
}

Result<Value> map_score(Mapping& mapping, const LayerConfig& cost) {
  mapping.graph.set_scope(cost.name);
  const Value& input = mapping.outputs.at(cost.inputs.front());
  if (cost.type == "binary_cross_entropy") return mapping.graph.node("Sigmoid", {input});
  if (cost.type == "softmax_cross_entropy")
    return mapping.graph.node("Softmax", {input}, {{"axis", 1}});
  if (cost.type == "squared_error") return input;
  return layer_error(cost, fmt::format("type {} has no nodes in ONNX", cost.type), kOtherFormats);
}

}  // namespace paddle::onnx
