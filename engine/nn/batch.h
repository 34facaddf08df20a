// What the dataset hands to the network: ids or floats by slot, for a number of examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddle::nn {

// A slot of ids (config::SlotConfig with width 0) has ids; a slot of floats has values.
struct Slot {
  // Example i owns ids [offsets[i], offsets[i + 1]); with no offsets it owns exactly ids[i].
  std::vector<std::uint64_t> ids = {};
  std::vector<std::uint32_t> offsets = {};  // size of the batch + 1, or empty
  std::vector<float> weights = {};          // of each id; empty: all 1
  // Example i owns values [i * width, (i + 1) * width). All finite.
  std::vector<float> values = {};
};

// Slots are in the order that the network was built with.
struct Batch {
  std::size_t size = 0;
  std::vector<Slot> slots;
};

}  // namespace paddle::nn
