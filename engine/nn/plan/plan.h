// Plan of a network: its forward and backward as lists of ops on symbolic buffers, with nothing
// left to decide but what a batch holds. It stands alone once made, and any number of threads may
// run it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/plan/batch_input.h"
#include "engine/nn/plan/buffer.h"
#include "engine/nn/plan/op.h"

namespace paddle::nn {

struct Plan {
  // To be filled in this order, so that the first error is the one of Network::forward.
  std::vector<std::unique_ptr<const BatchInput>> inputs;
  std::vector<Buffer> buffers;
  std::vector<Op> forward;
  std::vector<Op> backward;  // after the forward, in training; empty in a network for predictions

  // Results of the forward beside the outputs.
  std::vector<std::size_t> costs;        // cost layer of each cost, which is a sum over the rows
  std::vector<std::size_t> predictions;  // layer of each array of a row's largest outputs
  // By layer; empty for a cost, and for a layer whose outputs no other has asked for.
  std::vector<std::optional<Region>> outputs;
  // By parameter; empty without a backward.
  std::vector<std::optional<Region>> parameter_gradients;
};

}  // namespace paddle::nn
