#include "engine/model/onnx_preparation.h"

#include <algorithm>
#include <limits>

namespace paddle::onnx {
namespace {

using config::ColumnFit;
using config::DataSlotConfig;
using wire::onnx::TensorProto;

Value cast(Graph& graph, const Value& x, TensorProto::DataType type) {
  return graph.node("Cast", {x}, {{"to", type}});
}

// One constant of each column, {columns}.
Value by_column(Graph& graph, const DataSlotConfig& slot, double ColumnFit::*constant) {
  std::vector<double> numbers;
  for (const ColumnFit& fit : slot.fits) numbers.push_back(fit.*constant);
  const std::uint64_t columns = numbers.size();
  return graph.doubles(numbers, {&columns, 1});
}

// The raw numbers as doubles, with missing ones filled in.
Value filled(Graph& graph, const DataSlotConfig& slot, const Value& raw) {
  Value numbers = cast(graph, raw, TensorProto::DOUBLE);
  if (!slot.marks_missing()) return numbers;
  return graph.node(
      "Where", {graph.node("IsNaN", {raw}), by_column(graph, slot, &ColumnFit::fill), numbers});
}

// sign(x) ln(1 + |x|); for small x by two terms of the series, as in data::Preparation.
Value signed_logarithm(Graph& graph, const Value& x) {
  const auto number = [&](double one) { return graph.doubles({&one, 1}, {}); };
  const Value size = graph.node("Abs", {x});
  const Value rest = graph.node("Sub", {number(1), graph.node("Mul", {size, number(0.5)})});
  const Value logarithm = graph.node("Log", {graph.node("Add", {number(1), size})});
  const Value is_small = graph.node("Less", {size, number(0x1p-24)});
  const Value both = graph.node("Where", {is_small, graph.node("Mul", {size, rest}), logarithm});
  return graph.node("Mul", {graph.node("Sign", {x}), both});
}

// The edges of all columns, {columns, edges}; rows with fewer edges end with infinity.
Value edges_of(Graph& graph, const DataSlotConfig& slot) {
  std::size_t most = 1;
  for (const ColumnFit& fit : slot.fits) most = std::max(most, fit.edges.size());
  std::vector<double> edges;
  for (const ColumnFit& fit : slot.fits) {
    edges.insert(edges.end(), fit.edges.begin(), fit.edges.end());
    edges.insert(edges.end(), most - fit.edges.size(), std::numeric_limits<double>::infinity());
  }
  const std::vector<std::uint64_t> shape{slot.fits.size(), most};
  return graph.doubles(edges, shape);
}

}  // namespace

const DataSlotConfig* prepared_slot(const config::DataConfig& data, const std::string& name) {
  const auto found = std::ranges::find(data.slots, name, &DataSlotConfig::name);
  return found == data.slots.end() || !found->is_prepared() ? nullptr : &*found;
}

Value prepare_floats(Graph& graph, const DataSlotConfig& slot, const Value& raw) {
  graph.set_scope(slot.name);
  Value x = filled(graph, slot, raw);
  if (slot.normalize == config::Normalize::kLog) {
    x = signed_logarithm(graph, x);
  } else if (slot.normalize != config::Normalize::kNone) {
    const Value shifted = graph.node("Sub", {x, by_column(graph, slot, &ColumnFit::offset)});
    x = graph.node("Mul", {shifted, by_column(graph, slot, &ColumnFit::scale)});
  }
  Value floats = cast(graph, x, TensorProto::FLOAT);
  if (!slot.missing_indicator) return floats;
  const Value indicator = cast(graph, graph.node("IsNaN", {raw}), TensorProto::FLOAT);
  return graph.node("Concat", {floats, indicator}, {{"axis", 1}});
}

Value prepare_ids(Graph& graph, const DataSlotConfig& slot, const Value& raw) {
  const Value x = graph.node("Unsqueeze", {filled(graph, slot, raw), graph.list({2})});
  const Value is_above = graph.node("GreaterOrEqual", {x, edges_of(graph, slot)});
  const Value buckets = graph.node(
      "ReduceSum", {cast(graph, is_above, TensorProto::INT64), graph.list({2})}, {{"keepdims", 0}});
  std::vector<std::int64_t> first;
  for (std::int64_t i = 0; i < slot.width; ++i) first.push_back(i * slot.buckets());
  return graph.node("Add", {buckets, graph.list(first)});
}

}  // namespace paddle::onnx
