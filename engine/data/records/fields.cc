#include "engine/data/records/fields.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::data {

constexpr std::size_t kShownBytes = 40;  // of a wrong field in a message

Error wrong_field(std::string_view what, std::string_view text, std::string_view expected) {
  const bool is_long = text.size() > kShownBytes;
  return Error{Errc::kData,
               fmt::format("{} '{}{}' is not {}", what, escape_control(text.substr(0, kShownBytes)),
                           is_long ? "..." : "", expected)};
}

Status parse_id(std::string_view text, std::string_view what, std::uint64_t& id,
                std::string_view hint) {
  if (read_short_id(text, id)) return {};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, id);
  if (error == std::errc() && at == end) return {};
  Error wrong = wrong_field(what, text, "a whole number from 0 to 2^64-1");
  wrong.hint = hint;
  return wrong;
}

Status parse_float(std::string_view text, std::string_view what, float& value) {
  if (read_short_float(text, value)) return {};
  const char* const end = text.data() + text.size();
  // from_chars() refuses a leading plus.
  const char* const begin =
      text.starts_with('+') && !text.starts_with("+-") ? text.data() + 1 : text.data();
  const auto [at, error] = std::from_chars(begin, end, value);
  if (error == std::errc() && at == end && std::isfinite(value)) return {};
  return wrong_field(what, text, "a finite number");
}

}  // namespace paddle::data
