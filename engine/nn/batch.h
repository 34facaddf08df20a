// Batch of examples for a network, with ids or floats in each slot, and the conditions that a
// network sets for the values of a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paddle::nn {

// Values of one slot. A slot of ids (config::SlotConfig::width is 0) fills `ids`; a slot of floats
// fills `values`.
struct Slot {
  // Example i owns ids [offsets[i], offsets[i + 1]); without offsets, exactly ids[i].
  std::vector<std::uint64_t> ids = {};
  std::vector<std::uint32_t> offsets = {};  // batch size + 1, or empty
  std::vector<float> weights = {};          // one for each id; empty: all are 1
  // Example i owns values [i * width, (i + 1) * width), all finite.
  std::vector<float> values = {};
};

// `slots` has the order of the slots that the network was built with.
struct Batch {
  std::size_t size = 0;
  std::vector<Slot> slots;
};

// A condition of the network on a slot's values, so that records can be checked when they are read,
// where their file and line are known.
struct SlotRule {
  std::string layer = {};    // the layer or evaluator that sets the condition
  std::string subject = {};  // its name in messages: "layer 'cost'"
  std::string slot_name = {};
  std::size_t slot = 0;
  bool is_label = false;                     // predictions do not read it
  bool is_single = false;                    // an example has exactly one id
  std::uint64_t below = 0;                   // all ids must be below it; 0: any id
  std::optional<std::uint64_t> except = {};  // this id is valid, too
  bool is_binary = false;                    // floats are 0 or 1
  bool is_weight = false;                    // floats are 0 or more
};

}  // namespace paddle::nn
