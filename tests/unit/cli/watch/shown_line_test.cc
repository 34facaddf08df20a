#include <gtest/gtest.h>

#include "cli/watch/log_line.h"

namespace paddle::cli {
namespace {

TEST(ShownLine, OfTheEngineKeepsItsTimeAndItsText) {
  EXPECT_EQ(shown_line("I1123 00:47:58.024112 trainer-1] Pass=1 Batch=2 a] b"),
            "00:47:58 Pass=1 Batch=2 a] b");
  EXPECT_EQ(shown_line("W1123 00:47:58.024112 pserver-0] slow"), "00:47:58 warning: slow");
  EXPECT_EQ(shown_line("E1123 00:47:58.024112 trainer-0] bad"), "00:47:58 error: bad");
}

TEST(ShownLine, SaysAValueOnceAtTheFirstLogPointOfAPass) {
  const std::string at = "I1123 00:47:58.024112 trainer-1] Pass=1 Batch=2 samples=64 ";
  EXPECT_EQ(shown_line(at + "AvgCost=0.5 CurrentCost=0.5 Eval: auc=0.7 CurrentEval: auc=0.7"),
            "00:47:58 Pass=1 Batch=2 samples=64 AvgCost=0.5 Eval: auc=0.7");
  EXPECT_EQ(shown_line(at + "AvgCost=0.5 CurrentCost=0.5"),
            "00:47:58 Pass=1 Batch=2 samples=64 AvgCost=0.5");
  for (const char* const other :
       {"AvgCost=0.5 CurrentCost=0.4 Eval: auc=0.7 CurrentEval: auc=0.8",
        "AvgCost=0.5 CurrentCost=0.55", "CurrentCost=0.5 AvgCost=0.5", "CurrentEval: auc=0.7",
        "AvgCost=0.5 CurrentCost=0.4 Eval: auc=0.7 CurrentEval: auc=0.72"}) {
    EXPECT_EQ(shown_line(at + other), "00:47:58 Pass=1 Batch=2 samples=64 " + std::string(other));
  }
}

TEST(ShownLine, OfAnotherProgramStaysAsItIs) {
  for (const char* const line :
       {"", "I", "plain text", "I1123 00:47:58.024112", "I1123 00:47:58.024112 file.cc:12 x] y",
        "X1123 00:47:58.024112 trainer-0] x", "I1123 00:47:58,024112 trainer-0] x",
        "Iabcd 00:47:58.024112 trainer-0] x"})
    EXPECT_EQ(shown_line(line), line);
}

}  // namespace
}  // namespace paddle::cli
