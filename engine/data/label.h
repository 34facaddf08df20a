// Parser of the label in libsvm and Criteo lines.
#pragma once

#include "engine/data/fields.h"
#include "engine/data/record_block.h"

namespace paddle::data {

// Appends a float, or a class: a whole number from 0, where "+1" is 1 and "-1" is 0.
inline Status append_label(std::string_view text, bool as_float, RecordBlock& block) {
  if (as_float) return parse_float(text, "the label", block.values.emplace_back());
  std::uint64_t& label = block.ids.emplace_back(0);
  if (text == "-1") return {};
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_id(text, "the label", label);
}

}  // namespace paddle::data
