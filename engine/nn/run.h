// Run of a network: its examples, parameter values, mode and random streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/math/card_place.h"
#include "engine/math/gemm.h"
#include "engine/nn/batch.h"
#include "engine/nn/ids.h"

namespace paddle::nn {

// Rows of a sparse table: `ids` are sorted and unique, `values` are ids.size() x width, or empty if
// the table is in a card's memory.
struct SparseView {
  std::span<const std::uint64_t> ids;
  std::span<const float> values;
  const RowLookup* lookup = nullptr;  // hash table of `ids`; optional, for speed
  const CardRows* card = nullptr;     // rows of a table in a card's memory; else null

  std::size_t row_of(std::uint64_t id) const {
    return lookup != nullptr ? (*lookup)(id) : nn::row_of(ids, id);
  }
};

// All vectors are indexed by parameter. A dense parameter has an empty entry in `sparse`, and a
// sparse one in `dense`.
struct Parameters {
  std::vector<std::span<const float>> dense;
  std::vector<SparseView> sparse;
  // Addresses in a card's memory of dense parameters and of the buffers for their gradients. A
  // parameter with null pointers, or without an entry, is in the host's memory. Only an executor of
  // that card reads these addresses and those in SparseView::card.
  std::vector<CardPlace> card = {};

  CardPlace on_card(std::size_t parameter) const {
    if (const CardRows* const rows = sparse[parameter].card; rows != nullptr) return rows->place;
    return parameter < card.size() ? card[parameter] : CardPlace();
  }
};

enum class Mode { kTrain, kTest };

// Examples [begin, end) of a batch. Random draws depend only on `seed` and the example's index in
// the batch, so they do not depend on how a batch is split among threads.
struct Run {
  const Batch& batch;
  std::size_t begin = 0;
  std::size_t end = 0;
  const Parameters& parameters;
  Mode mode = Mode::kTrain;
  std::uint64_t seed = 0;  // differs from batch to batch
  // Factor on the cost before gradients are taken; 1 / batch.size makes them means.
  float cost_scale = 1;
  // Precision of matrix products; everything else is float32.
  kernels::Compute compute = kernels::Compute::kFloat32;
  // Idle threads that share work on the arrays of a large batch; null: the calling thread works
  // alone. A team that computes parts of a batch is not idle.
  ThreadTeam* team = nullptr;

  std::size_t rows() const { return end - begin; }
};

}  // namespace paddle::nn
