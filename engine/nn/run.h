// One call of the network: which examples, which parameter values, for training or for a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/gemm.h"
#include "engine/nn/batch.h"
#include "engine/nn/ids.h"

namespace paddle::nn {

// Rows of a sparse table: ids are sorted and unique, values are ids.size() x width.
struct SparseView {
  std::span<const std::uint64_t> ids;
  std::span<const float> values;
  const RowLookup* lookup = nullptr;  // of ids, for speed

  std::size_t row_of(std::uint64_t id) const {
    return lookup != nullptr ? (*lookup)(id) : nn::row_of(ids, id);
  }
};

// Both vectors are indexed by parameter; an entry of the other kind is empty.
struct Parameters {
  std::vector<std::span<const float>> dense;
  std::vector<SparseView> sparse;
};

enum class Mode { kTrain, kTest };

// Examples [begin, end) of a batch. What is drawn depends on `seed` and on the example's index in
// the batch alone: it is the same however a batch is split among threads.
struct Run {
  const Batch& batch;
  std::size_t begin = 0;
  std::size_t end = 0;
  const Parameters& parameters;
  Mode mode = Mode::kTrain;
  std::uint64_t seed = 0;  // differs from batch to batch
  // Gradients are those of the cost times this: 1 / batch.size makes them means.
  float cost_scale = 1;
  // Of the matrix products; all else is float32.
  kernels::Compute compute = kernels::Compute::kFloat32;

  std::size_t rows() const { return end - begin; }
};

}  // namespace paddle::nn
