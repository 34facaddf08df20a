#include <gtest/gtest.h>

#include "cli/console/console.h"

namespace paddle::cli {
namespace {

TEST(Wrapped, BreaksAtSpacesAndGoesOnUnderTheSecondColumn) {
  EXPECT_EQ(wrapped("a b c", 0), "a b c");
  EXPECT_EQ(wrapped("a b c", 5), "a b c");
  EXPECT_EQ(wrapped("a b c\n\nd e f\n", 3), "a b\nc\n\nd e\nf\n");
  EXPECT_EQ(wrapped("  -f  follow the log", 16), "  -f  follow the\n      log");
  EXPECT_EQ(wrapped("a long name  and what it is", 16), "a long name  and\nwhat it is")
      << "little room is left beside such a column";
}

TEST(Wrapped, ALongWordStaysWhole) {
  EXPECT_EQ(wrapped("    abcdefgh ij", 3), "    abcdefgh\n    ij");
  EXPECT_EQ(wrapped("a abcdefgh   ", 4), "a\nabcdefgh");
}

TEST(Wrapped, CountsTheCellsOfATerminal) {
  EXPECT_EQ(wrapped("机机 机机", 8), "机机\n机机");
  EXPECT_EQ(wrapped("äää äää", 7), "äää äää");
}

TEST(Wrapped, KeepsACommandWholeWhereItFits) {
  EXPECT_EQ(wrapped("look: paddlectl status --watch; it refreshes", 26),
            "look:\npaddlectl status --watch;\nit refreshes");
  EXPECT_EQ(wrapped("look: paddlectl status --watch", 20), "look: paddlectl\nstatus --watch");
}

TEST(Overwritten, LeavesTheNewestState) {
  EXPECT_EQ(overwritten("\r10%\r 50%\r100%\nplain\r\n\r\n"), "100%\nplain\n\n");
  EXPECT_EQ(overwritten("10%\r20%\r"), "20%");
  EXPECT_EQ(overwritten("as it is\n"), "as it is\n");
  EXPECT_EQ(overwritten(""), "");
}

}  // namespace
}  // namespace paddle::cli
