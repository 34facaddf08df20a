// Parameters as a trainer stores them for one batch: dense ones whole, and of sparse tables the
// rows that the batch uses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/math/card_place.h"
#include "engine/math/huge_pages.h"

namespace paddle::client {

// Rows of one sparse table. `ids` are sorted and unique; `values` and `gradients` have ids.size() x
// width floats. `notes` have ids.size() x parameter::RowNotes::size(); a push sends them behind
// each row's gradient.
struct SparseRows {
  std::uint32_t parameter = 0;  // index in the ParameterSet
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<float> gradients;
  std::vector<float> notes = {};
  CardRows card = {};  // used instead of values and gradients, which are empty then
  // Memory of the caller's for the values of a pull, used instead of `values` if not empty.
  std::span<float> placed_values = {};

  bool is_on_card() const { return card.place.value != nullptr; }
  // Where a pull writes ids.size() x width values. REQUIRES: placed_values has this size or none.
  std::span<float> make_values(std::size_t width) {
    if (!placed_values.empty()) return placed_values;
    values.resize(ids.size() * width);
    return values;
  }
};

// One dense parameter; pulls and pushes refresh its values.
struct DenseParameter {
  std::uint32_t parameter = 0;  // index in the ParameterSet
  LargeArray<float> value;
  LargeArray<float> gradient;
  std::span<const float> lent = {};  // a shard's own values, used instead of `value` if not empty
  std::span<float> placed_gradient = {};  // memory used instead of `gradient` if not empty
  CardPlace card = {};                    // used instead of all of the above, which are empty then

  std::span<const float> values() const {
    if (card.value != nullptr) return {};
    return lent.empty() ? std::span(value) : lent;
  }
  std::span<float> gradients() {
    if (card.gradient != nullptr) return {};
    return placed_gradient.empty() ? gradient : placed_gradient;
  }
  std::span<const float> gradients() const {
    if (card.gradient != nullptr) return {};
    return placed_gradient.empty() ? std::span<const float>(gradient) : placed_gradient;
  }
};

// Totals of the batches that one push carries.
struct PushTotals {
  std::uint64_t batches = 1;
  std::uint64_t samples = 0;
  double cost = 0;  // sum over samples
  // With node_groups, one trainer of each node pushes the sum of its node's dense gradients: the
  // number of samples in that sum, or 0 if another trainer pushes it. Unset without node_groups.
  std::optional<std::uint64_t> node_samples = {};
};

}  // namespace paddle::client
