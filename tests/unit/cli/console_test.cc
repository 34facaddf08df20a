#include "cli/console.h"

#include <sstream>

#include <gtest/gtest.h>

#include "cli/json.h"

namespace paddle::cli {
namespace {

TEST(Console, TableAlignsWideText) {
  std::ostringstream out, err;
  Console console(out, err, {});
  console.table({{"node", "os"}, {{"knöten", "a"}, {"机", "b"}}});
  EXPECT_EQ(out.str(), "node    os\nknöten  a\n机      b\n");
  EXPECT_EQ(err.str(), "");
}

TEST(Console, TextFromNodesCannotPaintTheTerminal) {
  std::ostringstream out, err;
  Console console(out, err, {});
  console.result("x\x1b[2Jy\r");
  console.error(Error{Errc::kFailed, "a\x1b[0m\nb", "c\x07"});
  EXPECT_EQ(out.str(), "x\\x1b[2Jy\\x0d\n");
  EXPECT_EQ(err.str(), "error: a\\x1b[0m\nb\nhint: c\\x07\n");
}

TEST(Console, ColourOnlyWhenAsked) {
  std::ostringstream out, err;
  Console console(out, err, {.live = false, .colour = true, .json = false});
  console.table({{"a"}, {{"b"}}});
  EXPECT_EQ(out.str(), "\x1b[1ma\x1b[0m\nb\n");
}

TEST(Console, LiveLineIsRewrittenAndClearedBeforeOtherText) {
  std::ostringstream out, err;
  Console console(out, err, {.live = true, .colour = false, .json = false});
  console.progress(TimePoint{}, "one");
  console.progress(TimePoint{}, "two");
  console.note("text");
  EXPECT_EQ(err.str(), "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[Ktext\n");
}

TEST(Console, JsonTableIsObjects) {
  std::ostringstream out, err;
  Console console(out, err, {.live = false, .colour = false, .json = true});
  console.table({{"node", "disk free"}, {{"a\"b", "1 GB"}}});
  EXPECT_EQ(out.str(), "[{\"node\": \"a\\\"b\", \"disk_free\": \"1 GB\"}]\n");
}

TEST(Json, ReadsFieldsOfAFlatObject) {
  const char* line = R"({"kind":"train","pass": 3,"cost":6.25e0})";
  EXPECT_EQ(json_number_field(line, "pass"), 3);
  EXPECT_EQ(json_number_field(line, "cost"), 6.25);
  EXPECT_EQ(json_text_field(line, "kind"), "train");
  EXPECT_FALSE(json_number_field(line, "batch"));
  EXPECT_FALSE(json_number_field(line, "kind"));
}

TEST(HumanBytes, RoundsToReadableUnits) {
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1500), "1.5 kB");
  EXPECT_EQ(human_bytes(135'000'000'000), "135 GB");
}

}  // namespace
}  // namespace paddle::cli
