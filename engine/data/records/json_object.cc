#include "engine/data/records/json_object.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paddle::data {
namespace {

using nlohmann::json;

bool is_too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool is_in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_in_text = !is_in_text;
    } else if (!is_in_text && (c == '[' || c == '{')) {
      if (++depth > kJsonDepthMax) return true;
    } else if (!is_in_text && (c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

bool append_number(const json& value, RecordBlock& block) {
  if (value.is_boolean()) {
    block.values.push_back(value.get<bool>() ? 1 : 0);
    return true;
  }
  if (!value.is_number()) return false;
  block.values.push_back(value.get<float>());
  return std::isfinite(block.values.back());
}

}  // namespace

Result<json> parse_json_object(std::string_view text) {
  if (is_too_deep(text)) {
    return Error{Errc::kData, fmt::format("it is nested more than {} deep", kJsonDepthMax)};
  }
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Error{Errc::kData, "it is no JSON object"};
  return object;
}

Status append_json_floats(std::string_view slot, const json& value, std::uint32_t width,
                          RecordBlock& block) {
  const auto append = [&](const json& number) { return append_number(number, block); };
  const bool is_right = value.is_array()
                            ? value.size() == width && std::ranges::all_of(value, append)
                            : width == 1 && append(value);
  if (is_right) return {};
  return Error{Errc::kData,
               fmt::format("'{}' must be {}", slot,
                           width == 1 ? "a number" : fmt::format("a list of {} numbers", width))};
}

}  // namespace paddle::data
