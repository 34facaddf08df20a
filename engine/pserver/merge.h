// The arithmetic of one round: contributions in trainer-id order, so that arrival order leaves no
// trace in the result.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/pserver/push.h"
#include "engine/table/sparse_table.h"

namespace paddle::pserver {

// Tables by parameter index; null where the parameter is dense.
using SparseTables = std::vector<std::unique_ptr<table::SparseTable>>;

// Of each contribution, in order: samples_i / sum of samples, all 0 when nobody has samples; or 1
// each for a sum.
std::vector<float> weights(std::span<const Push* const> pushes, wire::Merge merge);

// sum_i(weight_i * gradient_i), left to right; exactly the gradient when one contributor has all
// samples. `scratch` and `part` are reused between rounds. The result points into a push or
// scratch.
std::span<const float> merge_dense(std::span<const Push* const> pushes, wire::Merge merge,
                                   std::vector<float>& scratch, std::vector<float>& part);

// One update of each row that any contributor names, in (table, id) order.
void apply_rows(float learning_rate, wire::Merge merge, std::span<const Push* const> pushes,
                const SparseTables& tables);

}  // namespace paddle::pserver
