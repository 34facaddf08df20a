// Embeddings: an id becomes the number of its row, by binary search in a table's sorted ids, and
// rows are gathered by number.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "engine/onnx/layers.h"

namespace paddle::onnx {
namespace {

using wire::onnx::TensorProto;

// Ids of records, {records, ids}, with the factors that their rows are multiplied by.
struct Ids {
  Value ids;
  Value is_id = {};    // {records, ids} of 1 and 0, as the input kMask has them; "": all 1
  Value weights = {};  // {records, ids}; "": all 1
};

const config::SlotConfig& slot_of(const Mapping& mapping, const std::string& name) {
  return *std::ranges::find(mapping.slots, name, &config::SlotConfig::name);
}

Ids ids_of(Mapping& mapping, const std::string& name) {
  const config::SlotConfig& slot = slot_of(mapping, name);
  Graph& graph = mapping.graph;
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

// The number of each id's row: the lower bound, where it is that id, else that of the absent row.
// `at` is where the search stands: no id before it is as large.
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

// The product of those factors that are there, or "".
Value product(Graph& graph, std::initializer_list<Value> factors) {
  Value all;
  for (const Value& each : factors) {
    if (each.empty()) continue;
    all = all.empty() ? each : graph.node("Mul", {all, each});
  }
  return all;
}

// Rows of a layer's table: {records, ids, size}, multiplied by the weights of their ids and 0 where
// there is no id. Then `is_id` is 0 for the padding id too.
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
  if (ids.is_id.empty()) return sum;  // of one row
  const Value count = graph.node("ReduceSum", {ids.is_id, graph.list({1})}, {{"keepdims", 1}});
  return graph.node("Div", {sum, graph.node("Max", {count, graph.scalar(1.0F)})});
}

// The first `length` rows of each record, and zeros where it has fewer.
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

// An id for each slot: one search for all of them.
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

}  // namespace

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

}  // namespace paddle::onnx
