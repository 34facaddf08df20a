// Layers of a network as nodes of a graph, as they are in tests and predictions, and the parameters
// of a snapshot that they read as its initializers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/export/source.h"
#include "engine/onnx/graph.h"
#include "engine/snapshot/reader.h"

namespace paddle::onnx {

// A table: its ids as int64 in rising order with INT64_MAX behind them, and a row for each.
struct Table {
  Value ids;
  Value rows;
  std::uint64_t count = 0;  // without that last row, which absent ids read
};

// Parameters of a snapshot as initializers of a graph: those that its nodes read.
class UsedParameters {
 public:
  // `specs` are the network's, all of which the snapshot has: a snapshot knows no entry policies.
  // Rows that do not fit in memory go to a file in `scratch`. The references outlive this.
  UsedParameters(const snapshot::SnapshotReader& snapshot,
                 std::span<const wire::ParameterSpec> specs, std::string scratch, Graph& graph)
      : snapshot_(snapshot), specs_(specs), scratch_(std::move(scratch)), graph_(graph) {}

  // `name` is of one of `specs`.
  Result<Value> dense(const std::string& name);
  Result<Table> table(const std::string& name);
  // Of all those so far, as a model has them.
  std::uint64_t bytes() const { return bytes_; }
  // Moves them into `to`.
  Status add_to(wire::onnx::GraphProto& to);

 private:
  struct Used {
    exporting::Source source;
    Table values;  // of a dense parameter only `rows`
    float absent = 0;
  };

  Result<const Used*> use(const std::string& name);
  static Status add_dense(const Used& used, wire::onnx::GraphProto& to);
  static Status add_table(const Used& used, wire::onnx::GraphProto& to);

  const snapshot::SnapshotReader& snapshot_;
  std::span<const wire::ParameterSpec> specs_;
  std::string scratch_;
  Graph& graph_;
  std::map<std::string, Used> used_;
  std::uint64_t bytes_ = 0;
};

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

}  // namespace paddle::onnx
