// Parameters of a snapshot as initializers of a graph: those that its nodes read.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
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

}  // namespace paddle::onnx
