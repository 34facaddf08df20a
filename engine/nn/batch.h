// Batch of examples for a network: ids or floats by slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddle::nn {

// A slot of ids (config::SlotConfig with width 0) has ids; a slot of floats has values.
struct Slot {
  // Example i owns ids [offsets[i], offsets[i + 1]); without offsets, exactly ids[i].
  std::vector<std::uint64_t> ids = {};
  std::vector<std::uint32_t> offsets = {};  // batch size + 1, or empty
  std::vector<float> weights = {};          // one for each id; empty: all 1
  // Example i owns values [i * width, (i + 1) * width), all finite.
  std::vector<float> values = {};
};

// Slots come in the order in which the network was built.
struct Batch {
  std::size_t size = 0;
  std::vector<Slot> slots;
};

}  // namespace paddle::nn
