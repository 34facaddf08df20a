#include "engine/data/records/json_value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace paddle::data {
namespace {

template <class Number>
bool convert(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

double nearest_double(std::string_view text) {
  if (text == "-0") return 0;  // a whole number has no signed zero
  double number = 0;
  if (convert(text, number)) return number;
  return std::strtod(std::string(text).c_str(), nullptr);  // out of range: zero or infinite
}

// The least number of digits that is read as this number again.
std::string shortest(double number) {
  const double size = std::abs(number);
  const bool has_exponent = size != 0 && (size < 1e-4 || size >= 1e15);
  std::array<char, 32> digits{};
  const auto [end, error] =
      std::to_chars(digits.begin(), digits.end(), number,
                    has_exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(digits.begin(), end);
  if (!has_exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::optional<std::uint64_t> JsonValue::long_whole() const {
  std::uint64_t value = 0;
  if (!is_number() || !read_whole(text(), value)) return {};
  return value;
}

float JsonValue::long_number() const {
  return static_cast<float>(nearest_double(text()));
}

std::string JsonValue::shown() const {
  if (is_bool()) return truth() ? "true" : "false";
  if (!is_number()) return "";
  std::uint64_t whole = 0;
  std::int64_t negative = 0;
  if (convert(text(), whole) || (convert(text(), negative) && negative < 0))
    return std::string(text());
  if (text() == "-0") return "0";
  const double number = nearest_double(text());
  return std::isfinite(number) ? shortest(number) : std::string(text());
}

}  // namespace paddle::data
