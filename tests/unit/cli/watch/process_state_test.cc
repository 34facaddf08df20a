// Words for the ends of processes and of commands on nodes.
#include "cli/watch/process_state.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(ProcessState, TheEndOfACommandIsAnExitASignalOrATimeLimit) {
  EXPECT_EQ(describe(remote::CommandEnd{.exit_code = 3}), "exited with code 3");
  EXPECT_EQ(describe(remote::CommandEnd{.signal = 11}),
            "was killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(describe(remote::CommandEnd{.signal = 9, .timed_out = true}),
            "took longer than --timeout");
}

TEST(ProcessState, AShellTellsASignalByItsExitCode) {
  EXPECT_EQ(describe(remote::CommandEnd{.exit_code = 137}), "was killed by signal 9 (Killed)");
  EXPECT_EQ(describe(remote::CommandEnd{.exit_code = 128}), "exited with code 128");
  EXPECT_EQ(describe(remote::CommandEnd{.exit_code = 255}), "exited with code 255");
}

TEST(ProcessState, LastLinesBeginALineOfTheirOwn) {
  EXPECT_EQ(last_lines("one\ntwo\n\n"), "; its last lines:\none\ntwo");
  EXPECT_EQ(last_lines("\n"), "");
  EXPECT_EQ(last_lines(""), "");
}

}  // namespace
}  // namespace paddle::cli
