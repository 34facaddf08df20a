// What the dataset hands to the network: ids by slot, for a number of examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddle::nn {

// Example i owns ids [offsets[i], offsets[i + 1]); with no offsets it owns exactly ids[i].
struct Slot {
  std::vector<std::uint64_t> ids;
  std::vector<std::uint32_t> offsets;  // size of the batch + 1, or empty
};

// Slots are in the order of the names that the network was built with.
struct Batch {
  std::size_t size = 0;
  std::vector<Slot> slots;
};

}  // namespace paddle::nn
