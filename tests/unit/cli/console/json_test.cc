#include "cli/console/json.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(FlatObject, ReadsOneFlatObjectOfAnything) {
  const auto fields = read_flat_object(
      R"( {"kind":"train", "cost" : -6.25e1,"name\"":"a\u00e9\ud83d\ude00\n","none":null,"lags":[1, 2],"no":[]} )");
  ASSERT_TRUE(fields);
  ASSERT_EQ(fields->size(), 6U);
  EXPECT_EQ(std::get<std::string>(fields->at(0).value), "train");
  EXPECT_EQ(std::get<double>(fields->at(1).value), -62.5);
  EXPECT_EQ(fields->at(2).key, "name\"");
  EXPECT_EQ(std::get<std::string>(fields->at(2).value), "a\xc3\xa9\xf0\x9f\x98\x80\n");
  EXPECT_EQ(fields->at(3).value.index(), 0U);
  EXPECT_EQ(std::get<std::vector<double>>(fields->at(4).value), (std::vector<double>{1, 2}));
  EXPECT_TRUE(std::get<std::vector<double>>(fields->at(5).value).empty());
  EXPECT_TRUE(read_flat_object("{}"));
  for (const char* const bad :
       {"", "{", "[]", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1}x", "{\"a\":{}}",
        "{\"a\":[\"x\"]}", "{\"a\":\"x", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":1,}"}) {
    EXPECT_FALSE(read_flat_object(bad)) << bad;
  }
}

TEST(FlatObject, TakesWhatIsNotFiniteForNull) {
  // As Python, NumPy, C and JavaScript have it.
  for (const char* const text : {"NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "-inf",
                                 "+inf", "INF", "null", "1e999", "-1e400"}) {
    const auto fields =
        read_flat_object(fmt::format(R"({{"kind":"NaN \" inf","cost":{},"batch":4}})", text));
    ASSERT_TRUE(fields) << text;
    ASSERT_EQ(fields->size(), 3U);
    EXPECT_EQ(std::get<std::string>(fields->at(0).value), "NaN \" inf") << "of a text";
    EXPECT_EQ(fields->at(1).value.index(), 0U) << text;
    EXPECT_EQ(std::get<double>(fields->at(2).value), 4) << text;
  }
  const auto list = read_flat_object(R"({"a":[1,NaN,-Infinity,null,1e-999]})");
  ASSERT_TRUE(list);
  const auto& values = std::get<std::vector<double>>(list->at(0).value);
  ASSERT_EQ(values.size(), 5U);
  EXPECT_EQ(values[0], 1);
  for (const std::size_t i : {1U, 2U, 3U}) EXPECT_TRUE(std::isnan(values[i])) << i;
  EXPECT_EQ(values[4], 0);
  EXPECT_EQ(strict_json(R"({"a": NaN,"b":-1.5e3,"NaN":"inf","c":[true,Infinity]})"),
            R"({"a": null,"b":-1.5e3,"NaN":"inf","c":[true,null]})");
  for (const char* const bad : {"{\"a\":nano}", "{\"a\":NaN", "{NaN:1}", "{\"a\":NaN NaN}"})
    EXPECT_FALSE(read_flat_object(bad)) << bad;
}

TEST(FlatObject, HasTheNearestDoubleOfEachNumber) {
  const std::vector<std::pair<std::string, double>> numbers{
      {"9007199254740993", 9007199254740992},
      {"18446744073709551615", 18446744073709551616.0},
      {"18446744073709551616", 18446744073709551616.0},
      {"-9223372036854775809", -9223372036854775808.0},
      {"1" + std::string(300, '0'), 1e300},
      {"1.7976931348623157e308", 1.7976931348623157e308},
      {"5e-324", 5e-324},
      {"1e-999", 0},
      {"0e999", 0},
      {"-0", 0},
      {"0." + std::string(400, '0') + "1e401", 1},
  };
  for (const auto& [text, value] : numbers) {
    const auto fields = read_flat_object("{\"a\":" + text + "}");
    ASSERT_TRUE(fields) << text;
    const double number = std::get<double>(fields->at(0).value);
    EXPECT_EQ(number, value) << text;
    EXPECT_EQ(std::signbit(number), std::signbit(value)) << text;
  }
  EXPECT_TRUE(std::signbit(std::get<double>(read_flat_object(R"({"a":-0.0})")->at(0).value)));
  // Beyond the range of a double, without an exponent.
  const std::string large(400, '9');
  EXPECT_EQ(read_flat_object("{\"a\":" + large + "}")->at(0).value.index(), 0U);
  const auto list = read_flat_object("{\"a\":[" + large + "]}");
  ASSERT_TRUE(list);
  EXPECT_TRUE(std::isnan(std::get<std::vector<double>>(list->at(0).value).at(0)));
  for (const char* const bad : {"01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1_000", "--1"})
    EXPECT_FALSE(read_flat_object(fmt::format(R"({{"a":{}}})", bad))) << bad;
}

TEST(FlatObject, TakesTheTextsOfJsonOnly) {
  const auto fields =
      read_flat_object("\xef\xbb\xbf{\"\\u0000\":\"\\/\\b\\f\\r\\uD834\\udd1e\x7f\"}\r\n");
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->at(0).key, std::string(1, '\0'));
  EXPECT_EQ(std::get<std::string>(fields->at(0).value), "/\b\f\r\xf0\x9d\x84\x9e\x7f");
  for (const std::string& bad : {
           std::string(R"("\ud800")"),
           std::string(R"("\udc00")"),
           std::string(R"("\ud800\ud800")"),
           std::string(R"("\U0041")"),
           std::string("\"\xc0\x80\""),          // more bytes than the character needs
           std::string("\"\xed\xa0\x80\""),      // a surrogate
           std::string("\"\xf4\x90\x80\x80\""),  // beyond the last character
           std::string("\"\xe2\x82\""),          // cut off
           std::string("\"\x80\""),
           std::string("\"a\tb\""),
           std::string("\"a\nb\""),
           std::string("'a'"),
           std::string("\"a\" \"b\""),
       }) {
    EXPECT_FALSE(read_flat_object("{\"a\":" + bad + "}")) << bad;
    EXPECT_FALSE(read_flat_object("{" + bad + ":1}")) << bad;
  }
}

TEST(FlatObject, RefusesHostileLines) {
  for (const std::string& bad : {
           std::string(R"({"a":"\ud83dx"})"),  // half a surrogate pair
           std::string("{\"a\":\"\xff\"}"),    // no UTF-8
           std::string(R"({"a":1,"b":2,"a":3})"),
           std::string(R"({"a":1,"\u0061":2})"),
           std::string(R"({"a":NaN,"a":1})"),
           std::string(R"({"a":[[1]]})"),
           std::string(R"({"a":[true]})"),
           std::string("1"),
           std::string("\"a\""),
           std::string("null"),
           std::string("{\"a\":1}\0", 8),
           std::string("{\"a\":\0001}", 8),
           std::string("{\"a\":1} {\"b\":2}"),
           std::string("{\"a\":1/**/}"),
           std::string("{\"a\":1}//"),
           std::string("{\"a\":1,\"b\":{\"c\":2}}"),
           std::string("{\"a\":1,\"b\":[{}]}"),
           std::string("\xff\xfe{\"a\":1}"),
           std::string(1000000, '['),
           "{\"a\":" + std::string(1000000, '['),
       }) {
    EXPECT_FALSE(read_flat_object(bad)) << bad.substr(0, 100);
  }
}

TEST(FlatObject, BoundsFieldsAndLists) {
  const auto object_of = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
      text += (i == 0 ? "{\"" : ",\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  EXPECT_EQ(read_flat_object(object_of(kJsonFieldsMax))->size(), kJsonFieldsMax);
  EXPECT_FALSE(read_flat_object(object_of(kJsonFieldsMax + 1)));
  const auto list_of = [](std::size_t count) {
    std::string text = "{\"a\":[0";
    for (std::size_t i = 1; i < count; ++i) text += ",0";
    return text + "]}";
  };
  EXPECT_TRUE(read_flat_object(list_of(kJsonFieldsMax)));
  EXPECT_FALSE(read_flat_object(list_of(kJsonFieldsMax + 1)));
}

TEST(Json, QuotesTextSoThatItPaintsNoTerminal) {
  EXPECT_EQ(Json("a\"\\\n\tb\x1b[2J\xff").text(), R"("a\"\\\n\tb\\x1b[2J\\xff")");
  EXPECT_EQ(Json("kn\xc3\xb6ten").text(), "\"kn\xc3\xb6ten\"");
  EXPECT_EQ(Json("\xf4\x90\x80\x80 \xed\xa0\x80").text().find('\xed'), std::string::npos);
  EXPECT_EQ(Json("").text(), "\"\"");
}

TEST(Json, WritesValuesInTheirOrder) {
  const std::vector<std::string> names{"x", "y"};
  EXPECT_EQ(Json::object({{"z", 1},
                          {"a", true},
                          {"cost", Json::fixed(0.5, 4)},
                          {"nan", Json::fixed(0.0 / 0.0, 4)},
                          {"none", std::optional<int>()},
                          {"some", std::optional<int>(-7)},
                          {"names", Json::list({names.begin(), names.end()})},
                          {"empty", Json::object({})}})
                .text(),
            R"({"z": 1, "a": true, "cost": 0.5000, "nan": null, "none": null, "some": -7, )"
            R"("names": ["x", "y"], "empty": {}})");
}

}  // namespace
}  // namespace paddle::cli
