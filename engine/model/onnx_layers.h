// Maps the layers of a network to nodes of a graph, as they compute in tests and predictions, and
// the parameters of a snapshot that they read to initializers of the graph.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/model/onnx_graph.h"
#include "engine/snapshot/export_source.h"
#include "engine/snapshot/reader.h"

namespace paddle::onnx {

// A table: its ids as int64 in ascending order, followed by INT64_MAX, and a row for each of these.
struct Table {
  Value ids;
  Value rows;
  std::uint64_t count = 0;  // without the last row, which absent ids read
};

// The parameters of a snapshot that the nodes of a graph read, as initializers of the graph.
class UsedParameters {
 public:
  // `specs` are the network's parameters, all of which the snapshot must have; they contain the
  // entry policies, which a snapshot does not. Rows that do not fit in memory go to a file in
  // `scratch`. The references must outlive the object.
  UsedParameters(const snapshot::SnapshotReader& snapshot,
                 std::span<const wire::ParameterSpec> specs, std::string scratch, Graph& graph)
      : snapshot_(snapshot), specs_(specs), scratch_(std::move(scratch)), graph_(graph) {}

  // `name` must be in `specs`.
  Result<Value> dense(const std::string& name);
  Result<Table> table(const std::string& name);
  // Bytes of all parameters used so far, as they are in a model.
  std::uint64_t bytes() const { return bytes_; }
  // Moves the used parameters into `to`.
  Status add_to(wire::onnx::GraphProto& to);

 private:
  struct Used {
    exporting::Source source;
    Table values;  // for a dense parameter, only `rows` is set
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
  const config::DataConfig& data;
  std::span<const config::SlotConfig> slots;  // config::data_slots(data)
  std::map<std::string, Value> outputs = {};  // of the layers mapped so far, and of float slots
};

// Suffixes of additional inputs for a slot with any number of ids per record.
constexpr const char* kMask = ".mask";        // 1 where there is an id
constexpr const char* kWeights = ".weights";  // of the ids, if the slot has weights

// The outputs of a layer that is not a cost, {records, width}. Its inputs must be mapped already.
// kUsage: the type has no nodes in ONNX, or the layer cannot run.
Result<Value> map_layer(Mapping& mapping, const config::LayerConfig& layer);
// The score from what a cost reads: a probability, one probability per class, or the value itself.
Result<Value> map_score(Mapping& mapping, const config::LayerConfig& cost);

}  // namespace paddle::onnx
