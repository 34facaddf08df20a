#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

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
