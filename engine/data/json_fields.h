// Ids and numbers of records from values of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json_reader.h"
#include "base/result.h"
#include "engine/data/fields.h"
#include "engine/data/record_block.h"

namespace paddle::data {

// The value, if it is a whole number from 0 to 2^64-1; otherwise nothing.
inline std::optional<std::uint64_t> whole_of(const JsonValue& value) {
  std::uint64_t whole = 0;
  if (!value.is_number()) return {};
  if (!read_short_id(value.text(), whole) && !read_whole(value.text(), whole)) return {};
  return whole;
}
// The value of a number as float32; may be infinite.
inline float float_of(const JsonValue& number) {
  float value = 0;
  if (read_short_float(number.text(), value)) return value;
  return static_cast<float>(number.number());
}

// The error "'y' must be a whole number from 0 to 2^64-1, not 1.5".
Error not_whole(std::string_view slot, const JsonValue& value);

// Appends the floats of a slot: `width` numbers in a list, or a single number; true is 1 and false
// 0. With `marks_missing`, null and texts that stand for a missing value are NaN. kData: the value
// is something else, or not finite.
Status append_json_floats(std::string_view slot, const JsonValue& value, std::uint32_t width,
                          bool marks_missing, RecordBlock& block);

}  // namespace paddle::data
