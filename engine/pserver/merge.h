// The merge of several trainers' gradients into one update.
//
// INVARIANT: pushes are merged in trainer order, so that the order of arrival does not change the
// result. REQUIRES: `pushes` are sorted by trainer id, as UpdatePolicy::next_update() returns them.
#pragma once

#include <memory>
#include <optional>

#include "engine/pserver/push.h"
#include "engine/table/sparse_table.h"

namespace paddle::pserver {

// Tables by parameter index; null where the parameter is dense.
using SparseTables = std::vector<std::unique_ptr<table::SparseTable>>;

// sum_i(weight_i * gradient_i), left to right; exactly the gradient when one push has all samples.
// `scratch` and `part` are reused between updates. The result points into a push or `scratch`.
std::span<const float> merge_dense(std::span<const Push* const> pushes, wire::Merge merge,
                                   std::vector<float>& scratch, std::vector<float>& part);

// Updates each row that any push contains once, in the order of (table, id). Returns the first
// table in which a value or its state is not finite afterwards.
std::optional<std::uint32_t> apply_rows(float learning_rate, wire::Merge merge,
                                        std::span<const Push* const> pushes,
                                        const SparseTables& tables);

}  // namespace paddle::pserver
