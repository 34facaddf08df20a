// teardown, and commands that come after it.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, LookingAtATornDownClusterBringsNothingBack) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0);
  EXPECT_EQ(run({"status", "--cluster", "c.toml"}), 2);
  EXPECT_TRUE(err_has("node n-0: it has no folder of this cluster")) << err_.str();
  EXPECT_TRUE(err_has("hint: prepare the nodes: paddlectl up")) << err_.str();
  EXPECT_EQ(run({"teardown", "--cluster", "c.toml", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

TEST_F(CommandsTest, TeardownForgetsTheClusterOfThisDirectory) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

}  // namespace
}  // namespace paddle::cli
