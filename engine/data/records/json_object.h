// JSON objects that are records, one a line.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "engine/data/records/record_block.h"

namespace paddle::data {

// A bracket costs a parser some eighty times its byte, so that a line of them is refused unparsed.
constexpr std::size_t kJsonDepthMax = 64;

// kData: the text is no JSON object, or is nested deeper than that.
Result<nlohmann::json> parse_json_object(std::string_view text);

// Appends the floats of a slot: `width` numbers in a list, or one alone; true is 1 and false 0.
// kData: the value is something else, or not finite.
Status append_json_floats(std::string_view slot, const nlohmann::json& value, std::uint32_t width,
                          RecordBlock& block);

}  // namespace paddle::data
