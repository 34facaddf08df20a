#include "cli/console/console.h"

#include <sstream>

#include <gtest/gtest.h>

#include "cli/console/json.h"
#include "cli/console/json_reader.h"

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

TEST(JsonReader, ReadsOneFlatObjectOfAnything) {
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
       {"", "{", "[]", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":nan}", "{\"a\":1}x", "{\"a\":{}}",
        "{\"a\":[\"x\"]}", "{\"a\":\"x", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":1,}"}) {
    EXPECT_FALSE(read_flat_object(bad)) << bad;
  }
  // Half a surrogate pair is no character.
  EXPECT_EQ(std::get<std::string>(read_flat_object(R"({"a":"\ud83dx"})")->at(0).value),
            "\xef\xbf\xbdx");
}

TEST(Table, ShowsAFaultInRedWhereThereIsColour) {
  Table table{{{"node", ""}, {"disk", "", 0, true}}, {}};
  table.rows = {{text_cell("a"), text_cell("1 MB")}};
  table.rows[0][1].fault = true;
  EXPECT_EQ(to_text(table, 0, false), "node  disk\na     1 MB\n");
  EXPECT_EQ(to_text(table, 0, true), "\x1b[1mnode  disk\x1b[0m\na     \x1b[31m1 MB\x1b[0m\n");
}

TEST(Table, LosesItsLeastImportantColumnsOnANarrowTerminal) {
  Table table{{{"node", ""}, {"pid", "", 2, true}, {"cost", "", 1, true}, {"state", ""}}, {}};
  table.rows.push_back({text_cell("n-1\x1b[31m"), number_cell(std::uint64_t{7}),
                        number_cell(0.5, 2), text_cell("running")});
  EXPECT_EQ(to_text(table, 0, false),
            "node         pid  cost  state\nn-1\\x1b[31m    7  0.50  running\n");
  EXPECT_EQ(to_text(table, 30, false), "node         cost  state\nn-1\\x1b[31m  0.50  running\n");
  EXPECT_EQ(to_text(table, 10, false), "node         state\nn-1\\x1b[31m  running\n");
}

TEST(Console, ARepaintedTextStandsWhereTheLastOneStoodAndNeverScrolls) {
  std::ostringstream out, err;
  Console terminal(out, err, {.columns = 80, .rows = 3});
  terminal.repaint("a\nb\nc\nd\n");
  EXPECT_EQ(out.str(), "\x1b[Ha\x1b[K\nb\x1b[J");
  std::ostringstream piped;
  Console pipe(piped, err, {});
  pipe.repaint("a\nb\n");
  EXPECT_EQ(piped.str(), "a\nb\n");
}

TEST(Console, LabelsAreColouredByGroupAndTheTextIsEscaped) {
  std::ostringstream out, err;
  Console terminal(out, err, {.colour = true});
  terminal.labelled(0, "n-0/trainer-0", "evil \x1b[2J");
  terminal.labelled(1, "n-1/trainer-1", "x");
  EXPECT_EQ(out.str(),
            "\x1b[36mn-0/trainer-0 |\x1b[0m evil \\x1b[2J\n\x1b[33mn-1/trainer-1 |\x1b[0m x\n");
}

TEST(HumanBytes, RoundsToReadableUnits) {
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1500), "1.5 kB");
  EXPECT_EQ(human_bytes(135'000'000'000), "135 GB");
}

}  // namespace
}  // namespace paddle::cli
