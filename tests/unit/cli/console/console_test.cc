#include "cli/console/console.h"

#include <sstream>

#include <gtest/gtest.h>

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
       {{text_cell("a\"b"), Cell{"1 GB", 1000000000}, number_cell(0.5, 2), empty_cell()}}});
  EXPECT_EQ(out.str(), R"([{"node": "a\"b", "free_bytes": 1000000000, "cost": 0.50, "pid": null}])"
                       "\n");
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
  EXPECT_EQ(to_text(table, 30, false),
            "node         cost  state\nn-1\\x1b[31m  0.50  running\n(too narrow for: pid)\n");
  EXPECT_EQ(to_text(table, 10, false),
            "node         state\nn-1\\x1b[31m  running\n(too narrow for: pid, cost)\n");
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
