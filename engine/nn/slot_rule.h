// A condition of the network on a slot's values, so that records can be checked when they are read,
// where their file and line are known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace paddle::nn {

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
