#include "base/json.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(Json, WritesFieldsInOrderWithoutSpaces) {
  const std::vector<std::uint64_t> lags{1, 2};
  JsonObject object;
  object.add("kind", "pserver").add("port", 7164U).add("negative", -1).add("lags", lags);
  EXPECT_EQ(object.text(), R"({"kind":"pserver","port":7164,"negative":-1,"lags":[1,2]})");
  EXPECT_EQ(JsonObject().text(), "{}");
}

TEST(Json, EscapesTextInKeysAndValues) {
  EXPECT_EQ(json_text("a\"\\\n\t\r\x1f"), R"("a\"\\\n\t\u000d\u001f")");
  EXPECT_EQ(JsonObject().add("a\"b", "café").text(), R"({"a\"b":"café"})");
}

TEST(Json, NumbersKeepNineDigitsAndNonFiniteOnesAreNull) {
  EXPECT_EQ(json_text(1.0 / 3), "0.333333333");
  EXPECT_EQ(json_text(5000.0), "5000");
  EXPECT_EQ(json_text(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(json_text(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(json_text(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(Json, NestsArraysAndObjects) {
  JsonArray ports;
  EXPECT_EQ(ports.text(), "[]");
  ports.add(JsonObject().add("port", 1)).add(JsonObject());
  EXPECT_EQ(JsonObject().add("ports", ports).text(), R"({"ports":[{"port":1},{}]})");
}

TEST(Json, AddsTheFieldsOfAnother) {
  const JsonObject more = JsonObject().add("b", 2);
  EXPECT_EQ(JsonObject().add("a", 1).add(more).add("c", 3).text(), R"({"a":1,"b":2,"c":3})");
  EXPECT_EQ(JsonObject().add(JsonObject()).add(more).add(JsonObject()).text(), R"({"b":2})");
}

}  // namespace
}  // namespace paddle
