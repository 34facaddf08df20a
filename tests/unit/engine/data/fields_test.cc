#include "engine/data/fields.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace paddle::data {
namespace {

// Reference for parse_id() of a text without exponent: digits behind a plus, a point and zeros.
bool is_number(std::string_view text, std::uint64_t& id) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, id);
  return error == std::errc() &&
         (at == end || (*at == '.' && std::all_of(at + 1, end, [](char c) { return c == '0'; })));
}

TEST(Fields, IdsOfAnyLength) {
  const std::string digits = "98765432109876543210";
  for (std::size_t length = 1; length <= digits.size(); ++length) {
    std::string text = digits.substr(digits.size() - length);
    for (const char first : {'0', '1', '9'}) {
      text[0] = first;
      std::uint64_t expected = 0;
      std::uint64_t id = 0;
      ASSERT_EQ(parse_id(text, "an id", id).operator bool(), is_number(text, expected)) << text;
      if (is_number(text, expected)) {
        EXPECT_EQ(id, expected) << text;
      }
    }
  }
}

TEST(Fields, AnIdIsAWholeNumber) {
  for (std::size_t length = 1; length <= 9; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      for (int c = 0; c < 256; ++c) {
        std::string text(length, '7');
        text[at] = static_cast<char>(c);
        std::uint64_t expected = 0;
        std::uint64_t id = 0;
        EXPECT_EQ(parse_id(text, "an id", id).operator bool(), is_number(text, expected))
            << fmt::format("byte {} at {} of {}", c, at, length);
      }
    }
  }
  std::uint64_t id = 0;
  for (const char* const wrong :
       {"", "+", "-", ".", ".0", "-1", "-1.0", "+-1", "1.5", "1e3", "1.0e", "1.5e0", "1.0e-1",
        "1.0e30", "1.0x", "1.0 ", " 1", "0x1", "nan"}) {
    EXPECT_FALSE(parse_id(wrong, "an id", id)) << wrong;
  }
  const std::vector<std::pair<std::string_view, std::uint64_t>> right{
      {"-0", 0},
      {"-0.0", 0},
      {"+7", 7},
      {"7.", 7},
      {"7.5e1", 75},
      {"7.000e+00", 7},
      {"12.0E0", 12},
      {"18446744073709551615.0", UINT64_MAX},
      {"9.007199254740992e15", 9007199254740992}};
  for (const auto& [text, expected] : right) {
    ASSERT_TRUE(parse_id(text, "an id", id)) << text;
    EXPECT_EQ(id, expected) << text;
  }
}

TEST(Fields, FloatsAreTheNearest) {
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t limit = std::uint64_t{1} << (1 + rng.below(30));
    const std::string text =
        fmt::format("{}.{:0{}}", rng.below(limit), rng.below(100), 1 + rng.below(9));
    float expected = 0;
    float value = 0;
    const auto found = std::from_chars(text.data(), text.data() + text.size(), expected);
    ASSERT_EQ(found.ec, std::errc()) << text;
    ASSERT_TRUE(parse_float(text, "a float", value)) << text;
    ASSERT_EQ(value, expected) << text;
  }
  float value = 0;
  for (const char* const wrong :
       {"", ".", "1.", "1.x", "x.1", "1..2", "1.2.3", "0.1 ", "-", "+-1"}) {
    float expected = 0;
    const std::string_view text(wrong);
    const auto found = std::from_chars(text.data(), text.data() + text.size(), expected);
    const bool is_right = found.ec == std::errc() && found.ptr == text.data() + text.size();
    EXPECT_EQ(parse_float(text, "a float", value).operator bool(), is_right) << text;
  }
}

}  // namespace
}  // namespace paddle::data
