#include "base/json_reader.h"

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(JsonReader, HasTheMembersOfAnObjectInTheirOrder) {
  JsonReader reader({"b"});
  ASSERT_TRUE(reader.read(R"({"a":[1,{"x":[2],"y":null}],"b":"t\n","a":{},"b":true})"));
  const JsonValue& object = reader.object();
  ASSERT_EQ(object.size(), 4U);
  const JsonValue* const key = object.items();
  EXPECT_EQ(key->text(), "a");
  const JsonValue* const list = key->next();
  ASSERT_TRUE(list->is_list());
  EXPECT_EQ(list->size(), 2U);
  EXPECT_EQ(list->items()->number(), 1);
  const JsonValue* const inner = list->items()->next();
  ASSERT_TRUE(inner->is_object());
  ASSERT_EQ(inner->size(), 2U);
  EXPECT_EQ(inner->items()->text(), "x");
  EXPECT_EQ(inner->items()->next()->next()->text(), "y");
  EXPECT_EQ(inner->next(), list->next()) << "the last item ends where the list ends";
  EXPECT_EQ(list->next()->text(), "b");
  EXPECT_EQ(list->next()->next()->text(), "t\n");
  EXPECT_TRUE(reader.find(0)->is_bool()) << "the last one";
  EXPECT_EQ(reader.unknown(), "a");
}

// A text of ASCII alone is not checked for UTF-8.
TEST(JsonReader, RefusesOneByteThatIsNotUtf8) {
  JsonReader reader({"key"});
  const std::string object = R"({"key":"a text of twenty bytes","other":[1,"x"]})";
  ASSERT_TRUE(reader.read(object));
  for (std::size_t at = 0; at < object.size(); ++at) {
    std::string wrong = object;
    wrong[at] = '\xe9';
    EXPECT_FALSE(reader.read(wrong)) << at;
  }
  const std::string other = R"({"key":"Zürich"})";
  ASSERT_TRUE(reader.read(other));
  EXPECT_EQ(reader.find(0)->text(), "Zürich");
}

TEST(JsonReader, RefusesWhatIsBeyondItsLimits) {
  JsonReader reader({}, {.depth = 2, .items = 3});
  EXPECT_TRUE(reader.read(R"({"a":[1,2,3],"b":[4,5,6],"c":{}})"));
  const auto message = [&](std::string_view text) {
    const Status read = reader.read(text);
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(message(R"({"a":[[]]})"), "it is nested more than 2 deep");
  EXPECT_EQ(message(R"({"a":{"b":{}}})"), "it is nested more than 2 deep");
  EXPECT_EQ(message(R"({"a":[1,2,3,4]})"), "it has a list or an object of more than 3 items");
  EXPECT_EQ(message(R"({"a":1,"b":[],"c":{},"d":2})"),
            "it has a list or an object of more than 3 items");
  EXPECT_TRUE(reader.read(R"({"a":1})")) << "after a refusal";

  JsonReader other({});
  const auto nested = [](std::size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(other.read(nested(kJsonDepthMax)));
  EXPECT_FALSE(other.read(nested(kJsonDepthMax + 1)));
}

}  // namespace
}  // namespace paddle
