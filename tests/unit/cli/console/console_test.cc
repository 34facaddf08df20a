#include "cli/console/console.h"

#include <sstream>

#include <gtest/gtest.h>

#include "base/text.h"

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
  EXPECT_EQ(to_text(table, 20, false),
            "node         state\nn-1\\x1b[31m  running\n(too narrow for:\npid, cost)\n");
}

TEST(Table, ShortensACellBetweenCharactersAndWithoutBlanksAtItsEnd) {
  const auto shown = [](const std::string& text) {
    Table table{{{"key", ""}, {"value", ""}}, {}};
    table.columns[0].shortens = true;
    table.rows.push_back({text_cell(text), text_cell("1")});
    const std::string all = to_text(table, 60, false);
    const std::string row = all.substr(all.find('\n') + 1);
    return row.substr(0, row.find("...") + 3);
  };
  const std::string letters(200, 'a');
  const std::string ascii = shown(letters);
  ASSERT_TRUE(ascii.ends_with("..."));
  const std::size_t kept = ascii.size() - 3;
  EXPECT_EQ(ascii, letters.substr(0, kept) + "...");
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "漢";
  EXPECT_EQ(shown(wide), wide.substr(0, kept / 2 * 3) + "...");
  std::string accents;  // a letter and a combining accent
  for (int i = 0; i < 200; ++i) accents += "e\xcc\x81";
  EXPECT_EQ(shown(accents), accents.substr(0, kept * 3) + "...");
  EXPECT_EQ(shown("one" + std::string(200, ' ') + "end"), "one...");
  EXPECT_EQ(shown(std::string(2'000'000, 'b')).size(), ascii.size());
}

TEST(Table, NamesItsMissingColumnsInWholeWords) {
  Table table{{{"node", ""}, {"examples/s", "", 1}, {"best held-out", "", 2}}, {}};
  EXPECT_EQ(to_text(table, 20, false), "node  examples/s\n(too narrow for:\nbest held-out)\n");
}

TEST(Console, LinesBreakAtSpacesOnATerminalAndNowhereElse) {
  std::ostringstream out, err;
  Console terminal(out, err, {.columns = 26, .live_columns = 26});
  terminal.note("  39 snapshots stay on the nodes; to fetch: paddlectl fetch --job q1");
  EXPECT_EQ(err.str(),
            "  39 snapshots stay on the\n  nodes; to fetch:\n  paddlectl fetch --job q1\n");
  terminal.result("pass 1 of 3: held-out cost 0.5 (10 samples)");
  EXPECT_EQ(out.str(), "pass 1 of 3: held-out cost\n0.5 (10 samples)\n");
  out.str("");
  terminal.result("/a/path/that/is/longer/than/a/row");
  EXPECT_EQ(out.str(), "/a/path/that/is/longer/than/a/row\n");
  std::ostringstream piped, piped_err;
  Console pipe(piped, piped_err, {});
  pipe.note("39 snapshots stay on the nodes; to fetch: paddlectl fetch --job q1");
  EXPECT_EQ(piped_err.str(),
            "39 snapshots stay on the nodes; to fetch: paddlectl fetch --job q1\n");
}

TEST(Console, AnErrorAndItsHintBreakAtSpaces) {
  std::ostringstream out, err;
  Console terminal(out, err, {.colour = true, .columns = 30, .live_columns = 30});
  terminal.error({Errc::kFailed, "node n-1: these remain:\n  pid 7 of somebody else, not ours",
                  "see where it is: paddlectl status; then go on"});
  EXPECT_EQ(err.str(),
            "\x1b[31merror:\x1b[0m node n-1: these remain:\n  pid 7 of somebody else, not\n  ours\n"
            "hint: see where it is:\npaddlectl status; then go on\n");
}

TEST(Console, ALongLogLineGoesOnUnderItsBeginning) {
  std::ostringstream out, err;
  Console terminal(out, err, {.columns = 40});
  terminal.labelled(0, "n-0/trainer-0", "Pass=1 Batch=20 samples=640 AvgCost=0.5");
  EXPECT_EQ(out.str(),
            "n-0/trainer-0 | Pass=1 Batch=20\n                samples=640 AvgCost=0.5\n");
  out.str("");
  Console narrow(out, err, {.columns = 20});
  narrow.labelled(0, "n-0/trainer-0", "Pass=1 Batch=20");
  EXPECT_EQ(out.str(), "n-0/trainer-0 | Pass=1 Batch=20\n") << "no room beside the label";
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

TEST(NextStep, OfALackNamesWhatLacks) {
  EXPECT_EQ(next_step(Error{Errc::kResource, "a: write: File too large"}),
            "allow larger files: ulimit -f");
  EXPECT_TRUE(next_step(Error{Errc::kResource, "port 7164 is taken"})
                  .starts_with("free the missing resource"));
  EXPECT_EQ(next_step(Error{Errc::kInterrupted, "Too many open files"}), "");
}

}  // namespace
}  // namespace paddle::cli
