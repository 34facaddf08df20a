// Rows of an embedding's table as arrays for its ops.
#pragma once

#include "engine/nn/layers/table_rows.h"
#include "engine/nn/plan/batch_input.h"

namespace paddle::nn {

// For op::Gather, without pooling or with concat pooling. Makes `indices` and, where a slot has
// weights or the pooling is concat, `weights`: those of an example side by side, `length` for each
// slot, with kNoRow for ids that it has not.
class GatheredRows final : public BatchInput {
 public:
  explicit GatheredRows(TableRows rows) : rows_(std::move(rows)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  TableRows rows_;
};

// For op::Pool, with sum or mean pooling. Makes `indices` and `starts`, where a slot has weights
// also `weights`, and for a mean `scales`: the bags of all examples in the first slot, then those
// in the next.
class PooledRows final : public BatchInput {
 public:
  explicit PooledRows(TableRows rows) : rows_(std::move(rows)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  TableRows rows_;
};

}  // namespace paddle::nn
