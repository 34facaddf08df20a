#include "engine/model/onnx_layers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/log.h"
#include "base/named_rows.h"
#include "engine/model/onnx_preparation.h"
#include "engine/snapshot/export_formats.h"
#include "engine/table/entry_policy.h"

namespace paddle::onnx {
namespace {

using config::LayerConfig;
using wire::onnx::TensorProto;

constexpr const char* kOtherFormats =
    "--format=npz and --format=safetensors hold the parameters of every network";

template <class T>
void append(std::string& to, std::span<const T> values) {
  to.append(as_text(bytes_of(values)));
}

// Ids are unsigned; as int64, ids from 2^63 on are negative and come first. Moves the part of
// `bytes` behind `below`, in units of `unit` bytes, to the front.
void rotate_to_signed(std::string& bytes, std::uint64_t below, std::uint64_t unit) {
  std::rotate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(below * unit),
              bytes.end());
}

// The value of a row that a table lacks: the mean of initial values, or 0 if the table makes ids
// wait for their admission.
float absent_value(const wire::ParameterSpec& spec) {
  const bool takes_all = table::EntryPolicy(spec.table(), 0).takes_all();
  return takes_all ? spec.initial_mean() : 0.0F;
}

// kUsage, with the layer's place in its job.toml.
Error layer_error(const LayerConfig& layer, const std::string& message, const std::string& hint) {
  const std::string& place = layer.location;
  return {Errc::kUsage,
          fmt::format("{}{}layer '{}': {}", place, place.empty() ? "" : ": ", layer.name, message),
          hint};
}

// The name of a parameter of a layer: its own, or "_<layer>.<part>".
std::string parameter_name(const config::ParameterAttributes& attributes, const LayerConfig& layer,
                           const std::string& part) {
  return attributes.name.empty() ? fmt::format("_{}.{}", layer.name, part) : attributes.name;
}

std::vector<Value> inputs_of(const Mapping& mapping, const LayerConfig& layer) {
  std::vector<Value> inputs;
  for (const std::string& name : layer.inputs) inputs.push_back(mapping.outputs.at(name));
  return inputs;
}

Value gelu(Graph& graph, const Value& x) {
  const Value ratio =
      graph.node("Mul", {x, graph.scalar(static_cast<float>(1 / std::numbers::sqrt2))});
  const Value twice =
      graph.node("Add", {graph.node("Erf", {ratio}), graph.scalar(1.0F)});  // twice the normal CDF
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
  return layer_error(layer, fmt::format("activation '{}' cannot be expressed in ONNX", name),
                     kOtherFormats);
}

// Combines the inputs, one after another, into one value.
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

// Dropout acts only in training.
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

// Embeddings: an id becomes the number of its row, by binary search in a table's sorted ids, and
// rows are gathered by number.

// Ids of records, {records, ids}, with the factors that their rows are multiplied by.
struct Ids {
  Value ids;
  Value is_id = {};    // {records, ids} of 1 and 0, as in the input kMask; "": all 1
  Value weights = {};  // {records, ids}; "": all 1
};

const config::SlotConfig& slot_of(const Mapping& mapping, const std::string& name) {
  return *std::ranges::find(mapping.slots, name, &config::SlotConfig::name);
}

// The buckets of numbers; every record has as many.
Ids bucket_ids(Mapping& mapping, const config::DataSlotConfig& slot) {
  Graph& graph = mapping.graph;
  const std::vector<Dimension> shape{Dimension(kRecords), Dimension(slot.width)};
  const Value raw = graph.input(slot.name, TensorProto::FLOAT, shape);
  Ids ids{prepare_ids(graph, slot, raw)};
  if (slot.width > 1) {
    const std::vector<std::int64_t> ones(slot.width, 1);
    ids.is_id = graph.node("Cast", {graph.list(ones)}, {{"to", TensorProto::FLOAT}});
    ids.is_id = graph.node("Unsqueeze", {ids.is_id, graph.list({0})});
  }
  return ids;
}

Ids ids_of(Mapping& mapping, const std::string& name) {
  const config::SlotConfig& slot = slot_of(mapping, name);
  Graph& graph = mapping.graph;
  if (const auto* const prepared = prepared_slot(mapping.data, name))
    return bucket_ids(mapping, *prepared);
  if (!slot.many) {
    const std::vector<Dimension> shape{Dimension(kRecords)};
    return {
        graph.node("Unsqueeze", {graph.input(name, TensorProto::INT64, shape), graph.list({1})})};
  }
  const std::vector<Dimension> shape{Dimension(kRecords), Dimension(name + ".length")};
  Ids ids{graph.input(name, TensorProto::INT64, shape),
          graph.input(name + kMask, TensorProto::FLOAT, shape)};
  if (slot.weighted) ids.weights = graph.input(name + kWeights, TensorProto::FLOAT, shape);
  return ids;
}

// The number of each id's row: the lower bound in the table's ids if that is the id, else the
// number of the absent row. `at` is the position of the search: all ids before it are smaller.
Value search(Graph& graph, const Table& table, const Value& ids) {
  const Value none = graph.scalar(std::int64_t{0});
  Value at = graph.node("Mul", {ids, none});
  for (auto left = static_cast<std::int64_t>(table.count); left > 0;) {
    const std::int64_t half = (left + 1) / 2;
    const Value last = graph.node("Add", {at, graph.scalar(half - 1)});
    const Value is_below = graph.node("Less", {graph.node("Gather", {table.ids, last}), ids});
    at = graph.node("Add", {at, graph.node("Where", {is_below, graph.scalar(half), none})});
    left -= half;
  }
  const Value is_there = graph.node("Equal", {graph.node("Gather", {table.ids, at}), ids});
  const Value absent = graph.scalar(static_cast<std::int64_t>(table.count));
  return graph.node("Where", {is_there, at, absent});
}

// The product of the factors that are not "", or "".
Value product(Graph& graph, std::initializer_list<Value> factors) {
  Value all;
  for (const Value& each : factors) {
    if (each.empty()) continue;
    all = all.empty() ? each : graph.node("Mul", {all, each});
  }
  return all;
}

// Rows of a layer's table, {records, ids, size}, multiplied by the weights of their ids, and 0
// where there is no id. Sets `is_id` to 0 for the padding id too.
Result<Value> rows_of(Mapping& mapping, const config::LayerConfig& layer, Ids& ids) {
  Graph& graph = mapping.graph;
  const std::string name = parameter_name(layer.weight, layer, "w0");
  Value number = ids.ids;
  if (layer.padding_id) {
    const Value padding = graph.scalar(std::bit_cast<std::int64_t>(*layer.padding_id));
    const Value is_padding = graph.node("Equal", {ids.ids, padding});
    number = graph.node("Where", {is_padding, graph.scalar(std::int64_t{0}), number});
    const Value counts =
        graph.node("Cast", {graph.node("Not", {is_padding})}, {{"to", TensorProto::FLOAT}});
    ids.is_id = product(graph, {ids.is_id, counts});
  }
  Value values;
  if (layer.weight.sparse) {
    PADDLE_TRY(const Table table, mapping.parameters.table(name));
    number = search(graph, table, number);
    values = table.rows;
  } else {
    PADDLE_TRY(values, mapping.parameters.dense(name));
  }
  const Value rows = graph.node("Gather", {values, number});
  const Value factor = product(graph, {ids.is_id, ids.weights});
  if (factor.empty()) return rows;
  return graph.node("Mul", {rows, graph.node("Unsqueeze", {factor, graph.list({2})})});
}

Value flatten(Graph& graph, const Value& rows, std::uint64_t width) {
  return graph.node("Reshape", {rows, graph.list({0, static_cast<std::int64_t>(width)})});
}

Value mean(Graph& graph, const Value& sum, const Ids& ids) {
  if (ids.is_id.empty()) return sum;  // one row per record
  const Value count = graph.node("ReduceSum", {ids.is_id, graph.list({1})}, {{"keepdims", 1}});
  return graph.node("Div", {sum, graph.node("Max", {count, graph.scalar(1.0F)})});
}

// The first `length` rows of each record, with zeros if it has fewer.
Value side_by_side(Graph& graph, const Value& rows, const config::LayerConfig& layer) {
  const std::int64_t length = layer.length;
  const Value longer = graph.node("Pad", {rows, graph.list({0, 0, 0, 0, length, 0})});
  const Value first =
      graph.node("Slice", {longer, graph.list({0}), graph.list({length}), graph.list({1})});
  return flatten(graph, first, layer.length * layer.size);
}

Result<Value> map_pooled(Mapping& mapping, const config::LayerConfig& layer,
                         const std::string& slot) {
  Graph& graph = mapping.graph;
  Ids ids = ids_of(mapping, slot);
  PADDLE_TRY(const Value rows, rows_of(mapping, layer, ids));
  if (layer.pooling == "concat") return side_by_side(graph, rows, layer);
  const Value sum = graph.node("ReduceSum", {rows, graph.list({1})}, {{"keepdims", 0}});
  return layer.pooling == "mean" ? mean(graph, sum, ids) : sum;
}

// One id for each slot, with a single search for all slots.
Result<Value> map_plain(Mapping& mapping, const config::LayerConfig& layer) {
  Graph& graph = mapping.graph;
  std::vector<Value> columns;
  for (const std::string& name : layer.inputs) {
    if (slot_of(mapping, name).many) {
      return layer_error(layer,
                         fmt::format("slot '{}' holds a varying number of ids per example", name),
                         "give the layer pooling = \"sum\", \"mean\" or \"concat\"");
    }
    columns.push_back(ids_of(mapping, name).ids);
  }
  Ids ids{columns.size() == 1 ? columns.front() : graph.node("Concat", columns, {{"axis", 1}})};
  PADDLE_TRY(const Value rows, rows_of(mapping, layer, ids));
  return flatten(graph, rows, columns.size() * layer.size);
}

Result<Value> map_embedding(Mapping& mapping, const config::LayerConfig& layer) {
  if (layer.pooling.empty()) return map_plain(mapping, layer);
  std::vector<Value> slots;
  for (const std::string& name : layer.inputs) {
    PADDLE_TRY(const Value pooled, map_pooled(mapping, layer, name));
    slots.push_back(pooled);
  }
  if (slots.size() == 1) return slots.front();
  return mapping.graph.node("Concat", slots, {{"axis", 1}});
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

Result<const UsedParameters::Used*> UsedParameters::use(const std::string& name) {
  const auto known = used_.find(name);
  if (known != used_.end()) return &known->second;
  PADDLE_TRY(const auto specs, exporting::choose_parameters(snapshot_, name));
  PADDLE_TRY(exporting::Source source, exporting::Source::open(snapshot_, specs.front(), scratch_));
  PADDLE_TRY_STATUS(source.seal());
  Table values;
  bytes_ += source.rows() * source.width() * sizeof(float);
  if (source.is_table()) {
    values.ids = graph_.take_name(name + exporting::kIds);
    values.rows = graph_.take_name(name + exporting::kValues);
    values.count = source.rows();
    bytes_ += (source.rows() + 1) * sizeof(std::int64_t) + source.width() * sizeof(float);
  } else {
    values.rows = graph_.take_name(name);
  }
  const auto spec = std::ranges::find(specs_, name, &wire::ParameterSpec::name);
  PADDLE_CHECK(spec != specs_.end());
  const float absent = source.is_table() ? absent_value(*spec) : 0;
  if (source.is_table() && table::draws_unseen(*spec)) {
    log_warning(
        "{}: ONNX cannot draw initial values: an id without a row reads as {}, unlike in `paddle "
        "predict`",
        name, absent);
  }
  return &used_.emplace(name, Used{std::move(source), std::move(values), absent}).first->second;
}

Result<Value> UsedParameters::dense(const std::string& name) {
  PADDLE_TRY(const Used* const used, use(name));
  return used->values.rows;
}

Result<Table> UsedParameters::table(const std::string& name) {
  PADDLE_TRY(const Used* const used, use(name));
  return used->values;
}

Status UsedParameters::add_dense(const Used& used, wire::onnx::GraphProto& to) {
  const std::uint64_t bytes = used.source.rows() * used.source.width() * sizeof(float);
  std::string& raw =
      Graph::add_tensor(to, used.values.rows, TensorProto::FLOAT, used.source.shape(), bytes);
  return used.source.for_rows([&raw](std::uint64_t, std::span<const float> values) -> Status {
    append(raw, values);
    return {};
  });
}

Status UsedParameters::add_table(const Used& used, wire::onnx::GraphProto& to) {
  const std::uint64_t rows = used.values.count;
  const std::uint64_t width = used.source.width();
  std::uint64_t below = 0;  // ids below 2^63
  std::string& ids = Graph::add_tensor(to, used.values.ids, TensorProto::INT64,
                                       std::vector{rows + 1}, (rows + 1) * sizeof(std::int64_t));
  PADDLE_TRY_STATUS(used.source.for_rows([&](std::uint64_t id, std::span<const float>) -> Status {
    append(ids, std::span<const std::uint64_t>(&id, 1));
    below += static_cast<std::int64_t>(id) >= 0 ? 1 : 0;
    return {};
  }));
  rotate_to_signed(ids, below, sizeof(std::int64_t));
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  append(ids, std::span<const std::int64_t>(&kLast, 1));

  const std::vector<std::uint64_t> shape{rows + 1, width};
  std::string& values = Graph::add_tensor(to, used.values.rows, TensorProto::FLOAT, shape,
                                          (rows + 1) * width * sizeof(float));
  PADDLE_TRY_STATUS(used.source.for_rows([&](std::uint64_t, std::span<const float> row) -> Status {
    append(values, row);
    return {};
  }));
  rotate_to_signed(values, below, width * sizeof(float));
  append(values, std::span<const float>(std::vector<float>(width, used.absent)));
  return {};
}

Status UsedParameters::add_to(wire::onnx::GraphProto& to) {
  for (const auto& [name, used] : used_) {
    PADDLE_TRY_STATUS(used.source.is_table() ? add_table(used, to) : add_dense(used, to));
  }
  return {};
}

Result<Value> map_layer(Mapping& mapping, const LayerConfig& layer) {
  const std::span<const LayerRow> rows(kLayers);
  const LayerRow* const row = find_row(rows, layer.type);
  if (row == nullptr) {
    return layer_error(layer, fmt::format("type {} cannot be expressed in ONNX", layer.type),
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
  return layer_error(cost, fmt::format("type {} cannot be expressed in ONNX", cost.type),
                     kOtherFormats);
}

}  // namespace paddle::onnx
