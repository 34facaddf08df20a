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
    for (std::size_t bytes = 0; bytes < 140; ++bytes) {
      const std::string filler(bytes, 'a');
      for (const std::string& value :
           {"{" + filler + std::string(text) + "}", "{" + std::string(text) + filler + "}"}) {
        const std::string first = first_value(value);
        EXPECT_EQ(values_of(value + " {}").front(), "1:" + (first.empty() ? value + " {}" : first));
      }
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

// A backslash escapes the first byte of the next block, and no byte of the block after that.
TEST(JsonValues, AnEscapeEndsWithItsByte) {
  const std::string escaped = "{\"" + std::string(61, 'a') + "\\";
  ASSERT_EQ(escaped.size(), 64U);
  const std::string value = escaped + std::string(64, 'a') + "\"}";
  EXPECT_EQ(values_of(value + " {}"), (Values{"1:" + value, "1:{}"}));
  const std::string quoted = escaped + "\"" + std::string(63, 'a') + "}\"}";
  EXPECT_EQ(values_of(quoted + " {}"), (Values{"1:" + quoted, "1:{}"}));
}

TEST(JsonValues, AreNestedUpToTheLimit) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '{') + std::string(depth, '}');
  };
  EXPECT_EQ(values_of(nested(kJsonDepthMax)), Values{"1:" + nested(kJsonDepthMax)});
  EXPECT_EQ(values_of(nested(kJsonDepthMax + 1)), Values{"error: it is nested more than 64 deep"});
}

// json.dumps() writes such arrays. To look for the line end before each value would take minutes.
TEST(JsonValues, MayAllBeInOneLine) {
  constexpr std::uint64_t kCount = 300'000;
  std::string body = "[";
  for (std::uint64_t i = 0; i < kCount; ++i) body += R"({"id":1,"text":"of some length"},)";
  body.back() = ']';
  JsonValues values(body);
  std::uint64_t count = 0;
  while (true) {
    const auto value = values.next();
    ASSERT_TRUE(value) << value.error().message;
    if (!*value) break;
    ++count;
  }
  EXPECT_EQ(count, kCount);
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
