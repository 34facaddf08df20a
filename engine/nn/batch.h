// Batch of examples for a network: ids or floats by slot; and what a network asks of a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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

// A condition of the network on a slot's values, so that records can be checked when they are read,
// where their file and line are known.
struct SlotRule {
  std::string layer = {};    // or evaluator, whose condition it is
  std::string subject = {};  // the same for messages: "layer 'cost'"
  std::string slot_name = {};
  std::size_t slot = 0;
  bool is_label = false;                     // predictions do not read it
  bool is_single = false;                    // an example has exactly one id
  std::uint64_t below = 0;                   // ids are below it; 0: they are any
  std::optional<std::uint64_t> except = {};  // but for this one
  bool is_binary = false;                    // floats are 0 or 1
};

}  // namespace paddle::nn
