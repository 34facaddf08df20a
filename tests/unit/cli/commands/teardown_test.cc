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

TEST_F(CommandsTest, TeardownWithDiscardTakesNoClusterOfAParentFolder) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  directory_ += "/w";
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 2);
  EXPECT_TRUE(err_has("this folder has no current cluster")) << err_.str();
  EXPECT_TRUE(err_has("teardown --cluster " + folder_ + "/c.toml --yes --discard")) << err_.str();
  EXPECT_FALSE(nodes_[0].torn_down || nodes_[1].torn_down);
  EXPECT_EQ(run({"teardown", "--dry-run", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

TEST_F(CommandsTest, ASecondTeardownOfASubfolderLeavesTheClusterAbove) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/d.toml", "name = \"other\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n");
  directory_ += "/w";
  ASSERT_EQ(run({"up", "d.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 0) << err_.str();
  for (FakeNode& node : nodes_) node.torn_down = false;
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 2) << err_.str();
  EXPECT_FALSE(nodes_[0].torn_down || nodes_[1].torn_down);
}

}  // namespace
}  // namespace paddle::cli
