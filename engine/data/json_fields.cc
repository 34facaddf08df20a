#include "engine/data/json_fields.h"

#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::data {
namespace {

bool is_missing(const JsonValue& value) {
  return value.is_null() ||
         (value.is_text() && (value.text().empty() || is_missing_value(value.text())));
}

bool append_number(const JsonValue& value, bool marks_missing, RecordBlock& block) {
  if (marks_missing && is_missing(value)) {
    block.values.push_back(kMissing);
    return true;
  }
  if (!value.is_number() && !value.is_bool()) return false;
  block.values.push_back(value.is_bool() ? static_cast<float>(value.truth()) : float_of(value));
  return std::isfinite(block.values.back());
}

bool append_numbers(const JsonValue& list, bool marks_missing, RecordBlock& block) {
  const JsonValue* item = list.items();
  for (std::size_t i = 0; i < list.size(); ++i, item = item->next()) {
    if (!append_number(*item, marks_missing, block)) return false;
  }
  return true;
}

// The number, or the first number of a list, that is too large for a float32.
std::optional<std::string_view> too_large_number(const JsonValue& value) {
  const JsonValue* item = value.is_list() ? value.items() : &value;
  for (std::size_t i = 0; i < (value.is_list() ? value.size() : 1); ++i, item = item->next()) {
    if (item->is_number() && !std::isfinite(float_of(*item))) return item->text();
  }
  return {};
}

}  // namespace

Error not_whole(std::string_view slot, const JsonValue& value) {
  std::string shown = value.is_list()     ? "a list"
                      : value.is_object() ? "an object"
                      : value.is_null()   ? "null"
                                          : value.shown();
  std::uint64_t whole = 0;
  std::string_view advice;
  if (value.is_text()) {
    const std::string_view text = value.text();
    shown = fmt::format("\"{}{}\"", escape_control(text.substr(0, kJsonNumberShownMax)),
                        text.size() > kJsonNumberShownMax ? "..." : "");
    if (read_whole(text, whole)) advice = ": write it without quotes";
  } else if (value.is_number()) {
    shown = value.text().substr(0, kJsonNumberShownMax);
    const bool has_exponent = shown.find_first_of("eE") != shown.npos;
    if (has_exponent && shown.find_first_of("-.") == shown.npos)
      advice = ": write it without an exponent";
  }
  return {Errc::kData, fmt::format("'{}' must be a whole number from 0 to 2^64-1, not {}{}", slot,
                                   shown, advice)};
}

Status append_json_floats(std::string_view slot, const JsonValue& value, std::uint32_t width,
                          bool marks_missing, RecordBlock& block) {
  const bool is_right = value.is_list()
                            ? value.size() == width && append_numbers(value, marks_missing, block)
                            : width == 1 && append_number(value, marks_missing, block);
  if (is_right) return {};
  if (const auto large = too_large_number(value)) {
    return Error{Errc::kData, fmt::format("'{}' has {}, but a float32 has at most 3.4e38", slot,
                                          large->substr(0, kJsonNumberShownMax))};
  }
  return Error{Errc::kData,
               fmt::format("'{}' must be {}", slot,
                           width == 1 ? "a number" : fmt::format("a list of {} numbers", width)),
               value.is_text() ? "write numbers without quotes, and null for a missing one" : ""};
}

}  // namespace paddle::data
