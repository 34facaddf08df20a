// Memory that a dense shard and the only trainer of its job, in one process, read in each other
// instead of copying it. Both have the loan; whoever starts them makes it.
#pragma once

#include <span>
#include <vector>

namespace paddle::parameter {

struct DenseLoan {
  // Answers to pushes leave the values out. Only for a trainer whose batches never overlap a push,
  // since a push changes the values.
  bool lends_values = false;
  // The shard's values, once it has parameters; it keeps them there.
  std::span<const float> values = {};
  // The trainer's gradient of all elements while it sends a push, a part for each block; empty: the
  // gradient is in the frame.
  std::vector<std::span<const float>> gradient = {};
};

}  // namespace paddle::parameter
