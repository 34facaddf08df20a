// Gradient clipping by norm. It runs on the trainer, before a push, where the whole gradient of a
// parameter is present; a mean over trainers of clipped gradients keeps the bound on the
// norm.
#pragma once

#include <span>
#include <vector>

#include "engine/client/batch_parameters.h"
#include "proto/parameters.pb.h"

namespace paddle::trainer {

// First each parameter's gradient whose Euclidean norm is over its clip_norm (the optimizer's where
// it has none) is scaled down to it; then, if the norm over all parameters is over
// clip_global_norm, all are scaled down to that. A sparse table's gradient is that of the rows in
// the batch. Static parameters take no part. Norms are summed in float64 in the order of parameters
// and elements. A gradient without a finite norm is left as it is: the shard refuses it and names
// the parameter. `specs` are all parameters of the job, by index.
void clip_gradients(const wire::Optimizer& optimizer, std::span<const wire::ParameterSpec> specs,
                    std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows);

}  // namespace paddle::trainer
