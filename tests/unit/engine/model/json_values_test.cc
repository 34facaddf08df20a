#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/model/json_requests.h"

namespace paddle::serve {
namespace {

// "number:value" of each; the error at the end, if there is one.
std::vector<std::string> values_of(std::string_view body) {
  JsonValues values(body);
  std::vector<std::string> all;
  while (true) {
    const auto value = values.next();
    if (!value) {
      all.push_back("error: " + value.error().message);
      return all;
    }
    if (!*value) return all;
    all.push_back(fmt::format("{}:{}", values.number(), **value));
  }
}

using Values = std::vector<std::string>;

TEST(JsonValues, AreALineEach) {
  EXPECT_EQ(values_of(""), Values());
  EXPECT_EQ(values_of(" \r\n\n\t"), Values());
  EXPECT_EQ(values_of("{\"a\":1}"), Values{"1:{\"a\":1}"});
  EXPECT_EQ(values_of("{\"a\":1}\r\n\n {\"a\":2}\n"), (Values{"1:{\"a\":1}", "3:{\"a\":2}"}));
  EXPECT_EQ(values_of("\xef\xbb\xbf{}\n{}"), (Values{"1:{}", "2:{}"}));
}

TEST(JsonValues, MayGoOverSeveralLines) {
  EXPECT_EQ(values_of("{\n  \"a\": 1\n}\n{\n\"a\": [\n2]}"),
            (Values{"1:{\n  \"a\": 1\n}", "4:{\n\"a\": [\n2]}"}));
  EXPECT_EQ(values_of("{\"a}\\\"{\":\"]\\\\\"}\n{}"), (Values{"1:{\"a}\\\"{\":\"]\\\\\"}", "2:{}"}))
      << "brackets in texts are none";
}

// The first value of a body, found byte by byte; "" if its brackets are not closed.
std::string first_value(std::string_view body) {
  int depth = 0;
  for (std::size_t at = 0; at < body.size(); ++at) {
    if (body[at] == '"') {
      for (++at; at < body.size() && body[at] != '"'; ++at) at += body[at] == '\\' ? 1 : 0;
    } else if (body[at] == '{' || body[at] == '[') {
      ++depth;
    } else if ((body[at] == '}' || body[at] == ']') && --depth == 0) {
      return std::string(body.substr(0, at + 1));
    }
  }
  return "";
}

// Values are searched in blocks of 64 bytes, so quotes, backslashes and brackets are put on every
// side of the borders of blocks.
TEST(JsonValues, EndWhereTheirBracketsClose) {
  for (const std::string_view text :
       {R"("}")", R"("\"}")", R"("\\"})", R"("\\\"}")", R"([{}])", R"(\)"}) {
    for (std::size_t before = 0; before < 70; ++before) {
      const std::string value = "{" + std::string(before, 'a') + std::string(text) + "}";
      EXPECT_EQ(values_of(value + " {}").front(), "1:" + first_value(value)) << value;
    }
  }
  constexpr std::string_view kBytes = "{}[]\"\\ab: ";
  std::uint64_t seed = 1;
  std::size_t closed = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = "{";
    for (std::size_t left = seed % 200; left > 0; --left) {
      seed = mix64(seed);
      body += kBytes[seed % kBytes.size()];
    }
    seed = mix64(seed);
    const std::string expected = first_value(body);
    if (expected.empty()) continue;
    ++closed;
    ASSERT_EQ(values_of(body).front(), "1:" + expected) << body;
  }
  EXPECT_GT(closed, 5'000U);
}

TEST(JsonValues, OfAnArrayAreItsItems) {
  EXPECT_EQ(values_of("[]"), Values());
  EXPECT_EQ(values_of(" [ {\"a\":1} , {\"a\":[2]}\n,{}]\n"),
            (Values{"1:{\"a\":1}", "2:{\"a\":[2]}", "3:{}"}));
  EXPECT_TRUE(JsonValues("[{}]").is_array());
  EXPECT_FALSE(JsonValues("{}").is_array());
  EXPECT_EQ(values_of("[1, \"a\"]"), (Values{"1:1", "2:\"a\""})) << "the parser refuses them";
}

TEST(JsonValues, WhatIsNoArraySaysSo) {
  EXPECT_EQ(values_of("[{}"), (Values{"1:{}", "error: the array is not closed"}));
  EXPECT_EQ(values_of("["), Values{"error: the array is not closed"});
  EXPECT_EQ(values_of("[{},"), (Values{"1:{}", "error: the array is not closed"}));
  EXPECT_EQ(values_of("[{} {}]"), (Values{"1:{}", "error: a comma is missing after record 1"}));
  EXPECT_EQ(values_of("[{}] {}"), (Values{"1:{}", "error: unexpected data after the array"}));
  EXPECT_EQ(values_of(std::string(100'000, '[')), Values{"error: it is nested more than 64 deep"});
}

// The parser then says that they are no objects.
TEST(JsonValues, OthersEndWithTheirLine) {
  EXPECT_EQ(values_of("no record\n{}"), (Values{"1:no record", "2:{}"}));
  EXPECT_EQ(values_of("{}\n{\"a\":\n1"), (Values{"1:{}", "2:{\"a\":", "3:1"}));
  EXPECT_EQ(values_of("{},\n{}"), (Values{"1:{}", "1:,", "2:{}"}));
}

}  // namespace
}  // namespace paddle::serve
