#include "cli/console.h"

#include <sstream>

#include <gtest/gtest.h>

#include "cli/json.h"

namespace paddle::cli {
namespace {

TEST(Console, TableAlignsWideText) {
  std::ostringstream out, err;
  Console console(out, err, {});
  console.table({{{"node", "node"}, {"os", "os"}},
                 {{text_cell("knöten"), text_cell("a")}, {text_cell("机"), text_cell("b")}}});
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
  console.table({{{"a", "a"}}, {{text_cell("b")}}});
  EXPECT_EQ(out.str(), "\x1b[1ma\x1b[0m\nb\n");
}

TEST(Console, LiveLineIsRewrittenAndClearedBeforeOtherText) {
  std::ostringstream out, err;
  Console console(out, err, {.live = true, .colour = false, .json = false});
  console.progress(TimePoint{}, "one");
  console.progress(TimePoint{}, "two");
  console.note("text");
  EXPECT_EQ(err.str(), "\r\x1b[K\x1b[?7lone\x1b[?7h\r\x1b[K\x1b[?7ltwo\x1b[?7h\r\x1b[Ktext\n");
}

TEST(Console, JsonTableIsObjects) {
  std::ostringstream out, err;
  Console console(out, err, {.live = false, .colour = false, .json = true});
  console.table(
      {{{"node", "node"}, {"free", "free_bytes"}, {"cost", "cost"}, {"pid", "pid"}},
       {{text_cell("a\"b"), Cell{"1 GB", "1000000000"}, number_cell(0.5, 2), empty_cell()}}});
  EXPECT_EQ(out.str(), R"([{"node": "a\"b", "free_bytes": 1000000000, "cost": 0.50, "pid": null}])"
                       "\n");
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
