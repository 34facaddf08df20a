// Readers of the lines of a text, and of the words, fields and numbers in a line.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/rng.h"
#include "base/text_bits.h"
#include "engine/config/csv_line.h"

namespace paddle::data {

// The lines of a text, without their ends ("\n" or "\r\n").
class Lines {
 public:
  explicit Lines(std::string_view text, std::uint64_t first_line = 0)
      : rest_(text), number_(first_line - 1) {}

  std::optional<std::string_view> next() {
    if (rest_.empty()) return {};
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return line;
  }
  // Number of the line that next() has returned last, counted from 0.
  std::uint64_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::uint64_t number_;
};

constexpr std::string_view kBlanks = " \t\v\f";

// Removes the next word from the front of `rest` and returns it; "" if there is none. Blanks
// separate words.
inline std::string_view take_word(std::string_view& rest) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\f' && c != '\n'); };
  std::size_t begin = 0;
  while (begin < rest.size() && is_blank(rest[begin])) ++begin;
  std::size_t end = begin;
  while (end < rest.size() && !is_blank(rest[end])) ++end;
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

// Removes the text up to the next separator, or all of it, and the separator from the front of
// `rest`. Returns the text.
inline std::string_view take_field(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return field;
}

inline bool is_blank(std::string_view line) {
  return line.find_first_not_of(kBlanks) == std::string_view::npos;
}

constexpr std::string_view kLabelHint =
    "a label must be a whole number (0 or 1); classes with names, or with numbers that do not "
    "start at 0, need [data] labels = [\"no\", \"yes\"]";

// The error "the label '-1x' is not <expected>", shortened and safe to print.
Error wrong_field(std::string_view what, std::string_view text, std::string_view expected);

// Converts 1 to 8 digits that load_short() has loaded; false if a byte is not a digit.
inline bool read_digits(std::uint64_t digits, std::size_t size, std::uint64_t& number) {
  // Fill up with leading zeros to eight digits.
  constexpr std::uint64_t kZeros = 0x3030303030303030U;
  digits = digits << (8 * (8 - size)) | (size == 8 ? 0 : kZeros >> (8 * size));
  constexpr std::uint64_t kHigh = 0xf0f0f0f0f0f0f0f0U;
  if ((digits & kHigh) != kZeros || ((digits + 0x0606060606060606U) & kHigh) != kZeros)
    return false;
  // Join pairs, then fours, then all; the more significant half is in the lower bytes.
  digits -= kZeros;
  digits = digits * (10 * 0x100 + 1) >> 8U & 0x00ff00ff00ff00ffU;
  digits = digits * (100 * 0x10000 + 1) >> 16U & 0x0000ffff0000ffffU;
  number = digits * (10000 * 0x100000000U + 1) >> 32U;
  return true;
}

// Fast path for the most common ids: false unless the text is 1 to 8 digits and nothing else.
inline bool read_short_id(std::string_view text, std::uint64_t& id) {
  return text.size() - 1 <= 7 && read_digits(load_short(text), text.size(), id);
}

// Fast path for floats: false unless the text is "123.4567" of at most eight bytes with a digit on
// both sides. The digits as a whole number and the power of ten that divides it are exact in
// float32, so that their quotient is the nearest float32.
inline bool read_short_float(std::string_view text, float& value) {
  constexpr std::array<float, 7> kPowers{1, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F};
  const std::size_t size = text.size();
  if (size - 3 > 5) return false;
  const std::uint64_t bytes = load_short(text);
  // Points are zero bytes in `other`. The lowest mark is right; marks above it may be wrong.
  const std::uint64_t other = bytes ^ 0x2e2e2e2e2e2e2e2eU;
  const std::uint64_t marks = (other - 0x0101010101010101U) & ~other & 0x8080808080808080U;
  const auto point = static_cast<std::size_t>(std::countr_zero(marks)) / 8;
  if (point - 1 > size - 3) return false;
  const std::uint64_t whole = bytes & ((std::uint64_t{1} << (8 * point)) - 1);
  const std::uint64_t fraction = bytes >> (8 * point + 8) << (8 * point);
  std::uint64_t digits = 0;
  if (!read_digits(whole | fraction, size - 1, digits)) return false;
  value = static_cast<float>(digits) / kPowers[size - point - 1];
  return true;
}

// Reads a whole number from 0 to 2^64-1, which may be written as a float: "7", "+7", "7.0",
// "7.000e+00", "-0".
bool read_whole(std::string_view text, std::uint64_t& number);

// Parse a whole number as read_whole() does, or a finite float32, without blanks around it. A
// number that is too small for a float32 becomes 0. kData: the text is another, or the number is
// too large; `what` names the field in the message, and `hint` says what the field should be.
Status parse_id(std::string_view text, std::string_view what, std::uint64_t& id,
                std::string_view hint = "");
Status parse_float(std::string_view text, std::string_view what, float& value,
                   std::string_view hint = "");

using config::is_missing_value;

// A missing number of a slot with DataSlotConfig::marks_missing(), until it is filled in.
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr std::string_view kMissingHint =
    "missing = \"mean\", or a number, in the slot fills it in; an empty field is read as 0";

// For a text of labels = "learned" while its labels are not known. kData: it cannot be a label.
Status check_new_label(std::string_view text, std::string_view what);

// Hash of texts to ids that is stable across builds and machines. The same text gives different ids
// in two slots, so that slots can share a table. Ids are taken modulo `buckets` unless that is 0.
class SlotHash {
 public:
  SlotHash(std::string_view slot, std::uint64_t buckets)
      : slot_(stable_hash(slot)), buckets_(buckets) {}
  std::uint64_t operator()(std::string_view text) const {
    const std::uint64_t id = hash_combine(slot_, stable_hash(text));
    return buckets_ == 0 ? id : id % buckets_;
  }

 private:
  std::uint64_t slot_;
  std::uint64_t buckets_;
};

// Logarithm of whole numbers with the same bits on every machine; libm's may differ. Returns ln x
// to float32's precision, x > 0: x = m 2^e with m in [1/sqrt 2, sqrt 2), ln m = 2 artanh s with s =
// (m - 1) / (m + 1), |s| < 0.172, by its series.
inline float logarithm(std::uint64_t x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr double kSqrt2 = 1.41421356237309504880;
  int exponent = static_cast<int>(std::bit_width(x)) - 1;
  double m = static_cast<double>(x) / static_cast<double>(std::uint64_t{1} << exponent);
  if (m >= kSqrt2) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 13; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<float>(2 * s * sum + exponent * kLn2);
}

}  // namespace paddle::data
