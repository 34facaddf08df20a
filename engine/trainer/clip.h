// Clipping of gradients by norm, where the whole of a parameter's gradient is at hand: at the
// trainer, before a push. A mean of gradients whose norm is bounded has a norm within the same
// bound.
#pragma once

#include <span>
#include <vector>

#include "engine/client/parameters.h"
#include "proto/parameters.pb.h"

namespace paddle::trainer {

// First each parameter's gradient whose Euclidean norm is over its clip_norm (the optimizer's where
// it has none) is scaled down to it; then, if the norm over all parameters is over
// clip_global_norm, all are scaled down to that. A sparse table's gradient is that of the rows in
// the batch. Static parameters take no part. Norms are summed in float64 in the order of parameters
// and elements. A gradient with a norm that is not finite is left as it is, for the shard to refuse
// by its name. `specs` are all parameters of the job, by index.
void clip_gradients(const wire::Optimizer& optimizer, std::span<const wire::ParameterSpec> specs,
                    std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows);

}  // namespace paddle::trainer
