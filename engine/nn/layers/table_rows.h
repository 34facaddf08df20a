// Rows of an embedding's table that the ids of a run's examples name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/kernels/rows.h"
#include "engine/nn/run.h"

namespace paddle::nn {

enum class Pooling { kNone, kSum, kMean, kConcat };

class TableRows {
 public:
  struct Options {
    std::string layer;  // for messages
    std::vector<std::size_t> slots;
    std::vector<std::string> slot_names;
    std::size_t parameter = 0;
    std::uint64_t vocabulary = 0;  // 0: any id
    std::optional<std::uint64_t> padding_id;
    bool sparse = false;
    Pooling pooling = Pooling::kNone;
    std::size_t length = 1;  // rows side by side for each slot
  };

  // Ids of one example in one slot; concat pooling cuts them to its length.
  struct Bag {
    std::span<const std::uint32_t> positions;
    const float* weights = nullptr;  // null: all 1
    float scale = 1;
  };

  explicit TableRows(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }
  std::size_t slots() const { return options_.slots.size(); }

  // Whether any of the slots has weights in the run's batch.
  bool has_weights(const Run& run) const {
    return std::ranges::any_of(
        options_.slots, [&](std::size_t slot) { return !run.batch.slots[slot].weights.empty(); });
  }
  // Range of the ids of the run's examples in slot number i.
  std::pair<std::size_t, std::size_t> ids_of(const Run& run, std::size_t i) const;
  // Writes the table row of every id of the run's examples in slot number i to every `step`th
  // position; kNoRow for the padding id. kData: an id is not below the vocabulary, or a slot
  // without pooling has a varying number of ids.
  Status locate(const Run& run, std::size_t i, std::uint32_t* position, std::size_t step) const;

  // Calls visit(row, bag) for the run's examples in slot number i, whose positions are `own`.
  template <class Visit>
  void for_bags(const Run& run, std::size_t i, std::span<const std::uint32_t> own,
                Visit visit) const {
    const Slot& slot = run.batch.slots[options_.slots[i]];
    std::size_t used = 0;
    for (std::size_t row = 0; row < run.rows(); ++row) {
      const std::size_t example = run.begin + row;
      const std::size_t first = slot.offsets.empty() ? example : slot.offsets[example];
      const std::size_t count = slot.offsets.empty() ? 1 : slot.offsets[example + 1] - first;
      Bag bag{own.subspan(used, count), nullptr, 1};
      used += count;
      if (!slot.weights.empty()) bag.weights = slot.weights.data() + first;
      if (options_.pooling == Pooling::kMean) bag.scale = mean_scale(bag.positions);
      if (options_.pooling == Pooling::kConcat) {
        bag.positions = bag.positions.first(std::min(count, options_.length));
      }
      visit(row, bag);
    }
  }

 private:
  // Padding ids do not count. Inline, since it is called for every bag.
  static float mean_scale(std::span<const std::uint32_t> positions) {
    const auto padding = std::ranges::count(positions, kernels::kNoRow);
    const std::size_t count = positions.size() - static_cast<std::size_t>(padding);
    return count == 0 ? 1.0F : 1.0F / static_cast<float>(count);
  }

  Options options_;
};

}  // namespace paddle::nn
