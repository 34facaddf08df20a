// Arrays that the CPU makes of a batch before any op of a plan runs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// Each input says which of them it makes; the others are empty.
struct InputArrays {
  std::vector<float> floats;           // of the buffer of the input, row by row
  std::vector<std::uint32_t> indices;  // classes, or rows of a table
  std::vector<std::uint32_t> starts;   // of bags of indices: one for each bag, and the end
  std::vector<float> weights;          // of each index; empty: all 1
  std::vector<float> scales;           // of each bag; empty: all 1
};

// Filler of one input. Only here can a batch turn out to be wrong: ops read arrays and never fail.
class BatchInput {
 public:
  BatchInput() = default;
  virtual ~BatchInput() = default;
  BatchInput(const BatchInput&) = delete;
  BatchInput& operator=(const BatchInput&) = delete;

  // Replaces the arrays by those of the run's examples. The batch has passed Network::check. kData:
  // an id or label is out of range, in the words of the layer that reads it.
  virtual Status fill(const Run& run, InputArrays& arrays) const = 0;
};

}  // namespace paddle::nn
