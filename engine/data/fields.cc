#include "engine/data/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::data {
namespace {

constexpr std::size_t kLabelTextBytesMax = 1000;
constexpr std::size_t kShownBytes = 40;           // bytes of a wrong field that a message shows
constexpr double kExactMax = 9007199254740992.0;  // 2^53: a double has all whole numbers below

// Characters that a text with a number may have without showing them.
struct Unseen {
  std::string_view bytes;
  std::string_view reason;
};
constexpr std::array<Unseen, 5> kUnseen{{
    {"\xc2\xa0", ": it has a no-break space (U+00A0); sed 's/\\xc2\\xa0//g' OLD >NEW removes it"},
    {"\xe2\x80\xaf",
     ": it has a narrow no-break space (U+202F); sed 's/\\xe2\\x80\\xaf//g' OLD >NEW removes it"},
    {"\xe2\x80\x8b",
     ": it has a zero-width space (U+200B); sed 's/\\xe2\\x80\\x8b//g' OLD >NEW removes it"},
    {"\xe2\x88\x92",
     ": its minus is U+2212, not '-'; sed 's/\\xe2\\x88\\x92/-/g' OLD >NEW replaces it"},
    {"\x1a", ": it has ^Z, by which DOS ends a text; tr -d '\\032' <OLD >NEW removes it"},
}};

// The reason why a text is no number: ": it stands for a missing value", or "".
std::string_view oddity_of(std::string_view text) {
  if (is_missing_value(text)) return ": it stands for a missing value";
  for (const auto& [bytes, reason] : kUnseen) {
    if (text.find(bytes) != text.npos) return reason;
  }
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::string_view digits = text.substr(sign);
  if (digits.starts_with("0x") || digits.starts_with("0X")) return ": it is hexadecimal";
  const bool has_digits = text.find_first_of("0123456789") != text.npos;
  if (has_digits && text.find_first_not_of("+-.,0123456789") == text.npos &&
      text.find(',') != text.npos) {
    return ": numbers are written with a point and without commas, as 1234.5";
  }
  return "";
}

// Reads a whole number with a point at `point`: "3.000", or "3.000e+00" as numpy writes it.
// `digits` is the number before the point.
bool read_with_point(std::string_view text, std::size_t point, std::uint64_t digits,
                     std::uint64_t& number) {
  if (text.find_first_not_of('0', point + 1) == text.npos) {
    number = digits;
    return true;
  }
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || !(value >= 0 && value <= kExactMax)) return false;
  number = static_cast<std::uint64_t>(value);
  return static_cast<double>(number) == value;
}

}  // namespace

Error wrong_field(std::string_view what, std::string_view text, std::string_view expected) {
  const bool is_long = text.size() > kShownBytes;
  return Error{Errc::kData,
               fmt::format("{} '{}{}' is not {}", what, escape_control(text.substr(0, kShownBytes)),
                           is_long ? "..." : "", expected)};
}

Status check_new_label(std::string_view text, std::string_view what) {
  if (text.empty()) {
    return Error{Errc::kData, fmt::format("{} a label is empty", what),
                 "labels = \"learned\" makes a class of every text; give this record one"};
  }
  if (text.size() <= kLabelTextBytesMax) return {};
  return Error{
      Errc::kData,
      fmt::format("{} a label has {} bytes, more than {}", what, text.size(), kLabelTextBytesMax),
      "labels = \"learned\" makes a class of every text; is it another column?"};
}

// Refuses a number with an exponent but without a point: it is more likely a text of hexadecimal
// digits.
bool read_whole(std::string_view text, std::uint64_t& number) {
  if (text.starts_with('-')) {
    return text.size() > 1 && text[1] >= '0' && text[1] <= '9' &&
           read_whole(text.substr(1), number) && number == 0;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  std::uint64_t digits = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, digits);
  if (error != std::errc()) return false;
  if (at == end) {
    number = digits;
    return true;
  }
  return *at == '.' &&
         read_with_point(text, static_cast<std::size_t>(at - text.data()), digits, number);
}

Status parse_id(std::string_view text, std::string_view what, std::uint64_t& id,
                std::string_view hint) {
  if (read_short_id(text, id) || read_whole(text, id)) return {};
  Error wrong = wrong_field(what, text, "a whole number from 0 to 2^64-1");
  wrong.message += oddity_of(text);
  wrong.hint = hint;
  return wrong;
}

Status parse_float(std::string_view text, std::string_view what, float& value,
                   std::string_view hint) {
  if (read_short_float(text, value)) return {};
  const char* const end = text.data() + text.size();
  // from_chars() refuses a leading plus.
  const char* const begin =
      text.starts_with('+') && !text.starts_with("+-") ? text.data() + 1 : text.data();
  const auto [at, error] = std::from_chars(begin, end, value);
  std::string_view why;
  if (at == end && (error == std::errc() || error == std::errc::result_out_of_range)) {
    // A number that is too small for a normal float32 becomes 0 or the nearest denormal one.
    if (error != std::errc()) value = std::strtof(std::string(begin, end).c_str(), nullptr);
    if (std::isfinite(value)) return {};
    if (error != std::errc()) why = ": a float32 has at most 3.4e38";
  }
  const std::string_view oddity = oddity_of(text);
  Error wrong = wrong_field(what, text, "a finite number");
  wrong.message += oddity.empty() ? why : oddity;
  wrong.hint = hint;
  return wrong;
}

}  // namespace paddle::data
