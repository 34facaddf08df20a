// Memory that a shard and the only trainer of its job, in the same process, use directly instead of
// copying it. Both share the loan, which the code that starts them creates.
#pragma once

#include <span>
#include <vector>

namespace paddle::parameter {

struct DenseLoan {
  // Whether answers to pushes leave the values out. Only for a trainer that never computes a batch
  // during a push, since a push changes the values.
  bool lends_values = false;
  // The shard's values, once its parameters are created; they stay at this address.
  std::span<const float> values = {};
  // The trainer's gradient of all elements while it sends a push, one part for each block; empty:
  // the gradient is in the frame.
  std::vector<std::span<const float>> gradient = {};
};

struct RowLoan {
  // Where a sparse shard writes the rows of a pull while the trainer sends it, one part for each
  // segment. It clears them when it has; then its answer has no rows.
  std::vector<std::span<float>> values = {};
};

}  // namespace paddle::parameter
