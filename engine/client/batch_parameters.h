// Parameters as a trainer holds them for one batch: dense ones whole, sparse tables as the rows
// that the batch names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/memory/card_place.h"
#include "engine/memory/huge_pages.h"

namespace paddle::client {

// Rows of one sparse table. ids are sorted and unique; values and gradients are ids.size() x width.
// notes are ids.size() x parameter::RowNotes::size(); a push sends them behind each row's gradient.
struct SparseRows {
  std::uint32_t parameter = 0;  // index in the ParameterSet
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<float> gradients;
  std::vector<float> notes = {};
  CardRows card = {};  // used instead of values and gradients; the host has none then

  bool is_on_card() const { return card.place.value != nullptr; }
};

// One dense parameter; pulls and pushes refresh its values.
struct DenseParameter {
  std::uint32_t parameter = 0;  // index in the ParameterSet
  LargeArray<float> value;
  LargeArray<float> gradient;
  std::span<const float> lent = {};  // a shard's own values, used instead of `value` if not empty
  std::span<float> placed_gradient = {};  // memory for the gradient, likewise
  CardPlace card = {};  // used instead of all of the above; the host has nothing then

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

// The batches that one push stands for.
struct PushTotals {
  std::uint64_t batches = 1;
  std::uint64_t samples = 0;
  double cost = 0;  // sum over samples
  // The trainers of a node push one sum of their dense gradients: the samples behind it, or 0 where
  // another trainer pushes it.
  std::optional<std::uint64_t> node_samples = {};
};

}  // namespace paddle::client
