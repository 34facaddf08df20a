// Tests of the edges of JSON lines: what of a number, a text or a key is taken, and what is not.
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

using config::SlotType;

class JsonLinesTest : public testing::Test {
 protected:
  JsonLinesTest() {
    data_.format = "jsonl";
    data_.slots = {{.name = "id"},
                   {.name = "float", .type = SlotType::kFloat},
                   {.name = "text", .type = SlotType::kHash},
                   {.name = "list", .type = SlotType::kIds},
                   {.name = "pair", .type = SlotType::kFloat, .width = 2}};
    format_ = make_jsonl(data_, dictionary_);
  }

  // The error's message, or "".
  std::string parse(std::string_view line) {
    block_.clear();
    const Status parsed = format_->parse(line, block_);
    return parsed ? "" : parsed.error().message;
  }
  // The id of a record with this value. The test fails if the record is refused.
  std::uint64_t id(const std::string& value) {
    EXPECT_EQ(parse(R"({"id":)" + value + "}"), "");
    return block_.ids.empty() ? 12345 : block_.ids.front();
  }
  float number(const std::string& value) {
    EXPECT_EQ(parse(R"({"id":1,"float":)" + value + "}"), "") << value;
    return block_.values.empty() ? -12345 : block_.values.front();
  }
  std::uint64_t text(const std::string& value) {
    EXPECT_EQ(parse(R"({"id":1,"text":)" + value + "}"), "") << value;
    return block_.ids.size() < 2 ? 12345 : block_.ids[1];
  }
  bool is_json(const std::string& line) {
    return !parse(line).starts_with("it is not a JSON object");
  }

  config::DataConfig data_;
  Dictionary dictionary_;
  std::unique_ptr<Format> format_;
  RecordBlock block_;
  const SlotHash hash_{"text", 0};
};

TEST_F(JsonLinesTest, IdsAreExact) {
  EXPECT_EQ(id("18446744073709551615"), ~0ULL);
  EXPECT_EQ(id("18446744073709551614"), ~0ULL - 1);
  EXPECT_EQ(id("9223372036854775808"), 1ULL << 63U);
  EXPECT_EQ(id("9007199254740993"), 9007199254740993ULL);
  EXPECT_EQ(id("1234567890123456789"), 1234567890123456789ULL);
  EXPECT_EQ(id("0"), 0U);
  EXPECT_EQ(id(" 7 "), 7U);
  EXPECT_EQ(id("true"), 1U);
  EXPECT_EQ(id("1.0"), 1U);
  EXPECT_EQ(id("-0"), 0U);
  EXPECT_EQ(id("12.0e0"), 12U);
  EXPECT_EQ(parse(R"({"id":null})"), "'id' is missing");
  const std::string expected = "'id' must be a whole number from 0 to 2^64-1, not ";
  for (const char* wrong : {"-1", "-1.0", "1.5", "-1e2", "18446744073709551616",
                            "99999999999999999999", "-9223372036854775809", "\"a\""}) {
    EXPECT_EQ(parse(fmt::format(R"({{"id":{}}})", wrong)), expected + wrong);
  }
  EXPECT_EQ(parse(R"({"id":1E2})"), expected + "1E2: write it without an exponent");
  EXPECT_EQ(parse(R"({"id":1e3})"), expected + "1e3: write it without an exponent");
  EXPECT_EQ(parse(R"({"id":"1"})"), expected + "\"1\": write it without quotes");
  EXPECT_EQ(parse(R"({"id":[1]})"), expected + "a list");
  EXPECT_EQ(parse(R"({"id":{}})"), expected + "an object");
  EXPECT_EQ(parse(R"({"id":"a\u0001b"})"), expected + "\"a\\x01b\"");
  EXPECT_EQ(parse(R"({"id":")" + std::string(50, 'a') + "\"}"),
            expected + "\"" + std::string(40, 'a') + "...\"");
}

TEST_F(JsonLinesTest, FloatsAreThoseOfTheNearestDouble) {
  for (const char* value : {"0",
                            "-0",
                            "1",
                            "-1",
                            "0.5",
                            "-2.25",
                            "1e2",
                            "1E+2",
                            "1e-2",
                            "0.1",
                            "0.7",
                            "123.456",
                            "16777217",
                            "18446744073709551615",
                            "18446744073709551616",
                            "-9223372036854775809",
                            "3.4028234663852886e38",
                            "1e-45",
                            "1e-46",
                            "1e-400",
                            "0e308",
                            "0.0e-999",
                            "0e999",
                            "-0E+00999",
                            "0.000e4294967299",
                            "5e-324",
                            "0.30000000000000004",
                            "8.589973e9",
                            "1.00000005960464477539062500001",
                            "0.333333333333333333333333333333333333",
                            "123456789012345678901234567890",
                            "9007199254740993.0",
                            "1.17549435e-38",
                            "179769313486231570000000000000000e-300"}) {
    const auto expected = static_cast<float>(std::strtod(value, nullptr));
    EXPECT_EQ(number(value), expected) << value;
    EXPECT_EQ(std::signbit(number(value)), std::signbit(expected) && std::string(value) != "-0")
        << value;
  }
  EXPECT_EQ(number("true"), 1);
  EXPECT_EQ(number("null"), 0);
  EXPECT_EQ(number("[2.5]"), 2.5F);
  for (const char* wrong : {"\"1\"", "[]", "[1,2]", "{}", "[[1]]"}) {
    EXPECT_EQ(parse(fmt::format(R"({{"id":1,"float":{}}})", wrong)), "'float' must be a number")
        << wrong;
  }
  for (const char* wrong : {"3.5e38", "1e39", "-1e300", "1.8e308", "0.9e309"})
    EXPECT_EQ(parse(fmt::format(R"({{"id":1,"float":{}}})", wrong)),
              fmt::format("'float' has {}, but a float32 has at most 3.4e38", wrong));
  for (const char* wrong : {"1e400", "-1e400", "0.1e400", "1e99999999999999999999"}) {
    EXPECT_EQ(parse(fmt::format(R"({{"id":1,"more":"1e9","float":{}}})", wrong)),
              fmt::format("the number {} is beyond 1.8e308", wrong));
  }
  EXPECT_EQ(parse(R"({"id":1,"float":1e400,"more":0e999})"), "the number 1e400 is beyond 1.8e308");
  EXPECT_EQ(parse(R"({"id":1,"pair":[true,null]})"), "'pair' must be a list of 2 numbers");
  EXPECT_EQ(parse(R"({"id":1,"pair":[1,2,3]})"), "'pair' must be a list of 2 numbers");
  EXPECT_EQ(parse(R"({"id":1,"pair":{"a":1,"b":2}})"), "'pair' must be a list of 2 numbers");
}

TEST_F(JsonLinesTest, RandomFloatsAreThoseOfTheNearestDouble) {
  Rng rng(1);
  const auto digits = [&rng](std::size_t count) {
    std::string made;
    while (made.size() < count) made += static_cast<char>('0' + rng.below(10));
    return made;
  };
  for (int i = 0; i < 20'000; ++i) {
    std::string value = rng.below(4) == 0 ? "-" : "";
    value += rng.below(2) == 0 ? "0" : std::to_string(1 + rng.below(9)) + digits(rng.below(20));
    value += "." + digits(1 + rng.below(20));
    if (rng.below(4) == 0) value += "e-" + digits(1 + rng.below(3));
    EXPECT_EQ(number(value), static_cast<float>(std::strtod(value.c_str(), nullptr))) << value;
  }
}

TEST_F(JsonLinesTest, WrongNumbersAreNoJson) {
  for (const char* wrong :
       {"01",  "00",  "-",   "+1",       ".5",        "1.",  "1.e2",  "1e",  "1e+",  "-.5",
        "0x1", "NaN", "nan", "Infinity", "-Infinity", "inf", "0e",    "0e+", "0e9.", "1_0",
        "1 2", "- 1", "--1", "tru",      "True",      "nul", "truee", "",    "'a'"}) {
    EXPECT_FALSE(is_json(fmt::format(R"({{"id":1,"float":{}}})", wrong))) << wrong;
    EXPECT_FALSE(is_json(fmt::format(R"({{"id":1,"pair":[1,{}]}})", wrong))) << wrong;
    EXPECT_FALSE(is_json(fmt::format(R"({{"id":1,"unknown":{}}})", wrong))) << wrong;
  }
}

TEST_F(JsonLinesTest, TheColumnAndTheReasonOfAMistakeAreNamed) {
  for (const auto& [line, reason] : std::vector<std::pair<std::string, std::string>>{
           {R"({"id":1,})", "9: a comma is directly before the closing bracket"},
           {R"({"id":1 , } )", "11: a comma is directly before the closing bracket"},
           {R"({"list":[1,2,],"id":1})", "14: a comma is directly before the closing bracket"},
           {"{\"id\":1,\"text\":\"a\tb\"}", "18: a tab in a text must be written as \\t"},
           {"{\"id\":1,\"text\":\"\tb\"}", "17: a tab in a text must be written as \\t"},
           {"{\"id\":1,\"text\":\"\x01\"}",
            "17: a control character in a text must be written as an escape, such as \\n or "
            "\\u0001"},
           {"{\"text\":\"\xc3\xa9\",\"id\":01}", "19: a number begins with a needless 0"},
           {R"({"id":01})", "8: a number begins with a needless 0"},
           {R"({"list":[1,007],"id":1})", "13: a number begins with a needless 0"},
           {R"({"id":+1})", "7: a number has a plus sign"},
           {R"({"id":.5})", "7: a number has no digit before its point"},
           {R"({"id":1} // one)", ""},
           {R"({"id":1 /* one */})", "9: a comment, which JSON does not have"},
           {R"({"id": // one)", "8: a comment, which JSON does not have"},
           {R"(// one)", "1: a comment, which JSON does not have"},
           {R"(# one)", "1: a comment, which JSON does not have"},
           {R"({id:1})", "2: a name must be in double quotes"},
           {R"({"id" 1})", "7: a colon is missing"},
           {R"({"id":1 "text":"a"})", "9: a comma or a bracket is missing"},
           {R"({"id":tru})", ""},
           {R"(x)", ""}}) {
    const std::string found = parse(line);
    if (reason.empty()) {
      EXPECT_TRUE(found.starts_with("it is not a JSON object")) << line;
    } else {
      EXPECT_EQ(found, "it is not a JSON object: column " + reason) << line;
    }
  }
}

TEST_F(JsonLinesTest, TextsAreUnescapedAndUtf8) {
  EXPECT_EQ(text(R"("a")"), hash_("a"));
  EXPECT_EQ(text(R"("")"), hash_(""));
  EXPECT_EQ(text(R"("a\u0000b")"), hash_(std::string_view("a\0b", 3)));
  EXPECT_EQ(text(R"("\"\\\/\b\f\n\r\t")"), hash_("\"\\/\b\f\n\r\t"));
  EXPECT_EQ(text(R"("\u00e9\u20AC")"), hash_("\xc3\xa9\xe2\x82\xac"));
  EXPECT_EQ(text(R"("\ud83d\ude00")"), hash_("\xf0\x9f\x98\x80"));
  EXPECT_EQ(text("\"\xc3\xa9\x7f\""), hash_("\xc3\xa9\x7f"));
  for (const std::string wrong :
       {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")", R"("\u12")", R"("\x41")",
        R"("\)", "\"\x01\"", "\"\t\"", "\"\xff\"", "\"\xc3\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"", "\"a"}) {
    EXPECT_FALSE(is_json(R"({"id":1,"text":)" + wrong + "}")) << wrong;
    EXPECT_FALSE(is_json(R"({"id":1,"unknown":)" + wrong + "}")) << wrong;
    EXPECT_FALSE(is_json(R"({"id":1,)" + wrong + ":1}")) << wrong;
  }
  EXPECT_FALSE(is_json(std::string(R"({"id":1,"text":"a)") + '\0' + "\"}"));
}

TEST_F(JsonLinesTest, HashedNumbersAreTheirTexts) {
  for (const auto& [value, shown] : std::vector<std::pair<std::string, std::string>>{
           {"12", "12"},
           {"-12", "-12"},
           {"-0", "0"},
           {"1.50", "1.5"},
           {"1e2", "100.0"},
           {"0.1", "0.1"},
           {"1E25", "1e+25"},
           {"1e-7", "1e-07"},
           {"true", "true"},
           {"false", "false"},
           {"null", ""},
           {"18446744073709551615", "18446744073709551615"},
           {"18446744073709551616", "1.8446744073709552e+19"},
           {"-0.0", "-0.0"}}) {
    EXPECT_EQ(text(value), hash_(shown)) << value;
  }
}

TEST_F(JsonLinesTest, KeysAreUnescapedAndTheLastOneCounts) {
  EXPECT_EQ(parse(R"({"\u0069d":7})"), "");
  EXPECT_EQ(block_.ids.front(), 7U);
  EXPECT_EQ(parse(R"({"id":1,"id":2})"), "");
  EXPECT_EQ(block_.ids.front(), 2U);
  EXPECT_EQ(parse(R"({"id":-1,"text":"a","id":3,"text":"b"})"), "");
  EXPECT_EQ(block_.ids, (std::vector<std::uint64_t>{3, hash_("b")}));
  EXPECT_EQ(parse(R"({"id":1,"id":null})"), "'id' is missing");
  EXPECT_EQ(parse(R"({"id":1,"list":[1,2],"list":[3]})"), "");
  EXPECT_EQ(block_.ids, (std::vector<std::uint64_t>{1, hash_(""), 3}));
  EXPECT_EQ(parse(R"({"a":1,"":2,"id":4,"id ":5,"Id":6})"), "");
  EXPECT_EQ(block_.ids.front(), 4U);
  EXPECT_EQ(parse(R"({"id":1,"id\u0000":2})"), "");
  EXPECT_EQ(block_.ids.front(), 1U);
  // In any order, and another one a line.
  for (const char* line : {R"({"list":[9],"text":"a","id":4})", R"({"id":4,"list":[9],"text":"a"})",
                           R"({"text":"a","id":4,"x":[{"id":5}],"list":[9]})"}) {
    EXPECT_EQ(parse(line), "");
    EXPECT_EQ(block_.ids, (std::vector<std::uint64_t>{4, hash_("a"), 9})) << line;
  }
  // The first wrong slot of the job is named, not the first in the line.
  EXPECT_EQ(parse(R"({"list":1,"float":"a","id":1})"), "'float' must be a number");
}

TEST_F(JsonLinesTest, ALineIsOneObject) {
  for (const char* const blank : {"", " ", " \t\r"}) EXPECT_EQ(parse(blank), "");
  EXPECT_TRUE(block_.records.empty());
  EXPECT_EQ(parse(" \t{ \"id\" :\r 1 , \"list\" : [ ] } \t"), "");
  EXPECT_EQ(parse("\xef\xbb\xbf{\"id\":1}"), "");
  for (const std::string wrong : {"1",
                                  "null",
                                  "\"a\"",
                                  "[]",
                                  "{",
                                  "}",
                                  "{}}",
                                  "{\"id\":1",
                                  "{\"id\":1,}",
                                  "{\"id\":1},",
                                  "{\"id\":1}x",
                                  "{\"id\":1}{}",
                                  "{\"id\" 1}",
                                  "{id:1}",
                                  "{1:1}",
                                  "{,}",
                                  "{\"id\":1 \"a\":2}",
                                  "{\"id\":1,,\"a\":2}",
                                  "{\"id\":1,\"list\":[1,]}",
                                  "{\"id\":1,\"list\":[,1]}",
                                  "{\"id\":1,\"list\":[1 2]}",
                                  "{\"id\":1,\"list\":[1}",
                                  "{\"id\":1,\"list\":1]}",
                                  "{\"id\":1}//",
                                  "\v{\"id\":1}",
                                  "{\"id\":1}\f",
                                  "\xef\xbb{\"id\":1}"}) {
    EXPECT_FALSE(is_json(wrong)) << wrong;
  }
  // A zero byte does not end the line.
  EXPECT_FALSE(is_json(std::string("{\"id\":1}\0{}", 11)));
  EXPECT_FALSE(is_json(std::string("{\"id\":1}\0", 9)));
  EXPECT_FALSE(is_json(std::string("{\0\"id\":1}", 9)));
  EXPECT_FALSE(is_json(std::string("{\"id\":1\0}", 9)));
  const std::string deep = R"({"id":1,"x":)" + std::string(63, '[') + std::string(63, ']') + "}";
  EXPECT_EQ(parse(deep), "");
  EXPECT_EQ(parse(R"({"id":1,"x":)" + std::string(64, '[') + std::string(64, ']') + "}"),
            "it is nested more than 64 deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"id":)";
  EXPECT_EQ(parse(objects), "it is nested more than 64 deep");
  EXPECT_EQ(parse(std::string(100'000, '[')), "it is nested more than 64 deep");
}

}  // namespace
}  // namespace paddle::data
