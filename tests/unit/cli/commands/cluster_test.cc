#include <stdlib.h>

#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class ClusterCommand : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ::setenv("XDG_CONFIG_HOME", (folder_ + "/config").c_str(), 1);
    ::unsetenv("PADDLECTL_CLUSTER");
    write("lab.toml", "name = \"lab\"\n[[node]]\nname = \"l\"\nlauncher = \"local\"\ncount = 3\n");
    write("notes.toml", "title = \"no cluster\"\n");
    // Nothing below asks a node.
    for (FakeNode& node : nodes_) node.unreachable = true;
  }
  void TearDown() override {
    ::unsetenv("XDG_CONFIG_HOME");
    ::unsetenv("PADDLECTL_CLUSTER");
  }
};

TEST_F(ClusterCommand, ShowsTheCurrentOne) {
  EXPECT_EQ(run({"cluster"}), 2);
  EXPECT_TRUE(err_has("no current cluster, here or in a parent folder")) << err_.str();
  ASSERT_EQ(run({"cluster", "switch", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "t: c.toml, 2 nodes, named by .paddlectl/current\n");
  ASSERT_EQ(run({"cluster"}), 0);
  EXPECT_EQ(out_.str(), "t: c.toml, 2 nodes, named by .paddlectl/current\n");
  ASSERT_EQ(run({"cluster", "--json"}), 0);
  EXPECT_EQ(out_.str(), R"({"name": "t", "file": ")" + folder_ +
                            R"(/c.toml", "nodes": 2, "current": true, "named_by": ")" + folder_ +
                            R"(/.paddlectl/current", "left_out": []})" + "\n");
  write("c.toml", "name = \"t\"\n[[node]]\nhots = \"x\"\n");
  EXPECT_EQ(run({"cluster"}), 2);
  EXPECT_TRUE(err_has("unknown key 'hots'")) << err_.str();
  EXPECT_TRUE(out_has("cannot be read: c.toml, named by .paddlectl/current")) << out_.str();
}

TEST_F(ClusterCommand, SwitchesAndLists) {
  ASSERT_EQ(run({"cluster", "switch", "--default", "c.toml"}), 0) << err_.str();
  ASSERT_EQ(run({"cluster", "switch", "lab.toml"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "lab: lab.toml, 3 nodes, named by .paddlectl/current\n");
  ASSERT_EQ(run({"cluster", "list", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str().find(R"([{"name": "lab", )"), 0U) << out_.str();
  EXPECT_TRUE(out_has(R"("current": true)")) << out_.str();
  EXPECT_TRUE(out_has(R"({"name": "t", "file": ")" + folder_ +
                      R"(/c.toml", "nodes": 2, "current": false, "named_by": ")" + folder_ +
                      R"(/config/paddlectl/current")"))
      << out_.str();
  EXPECT_FALSE(out_has("notes.toml")) << out_.str();
  ASSERT_EQ(run({"cluster", "list"}), 0) << err_.str();
  EXPECT_TRUE(out_has("*  lab")) << out_.str();
  // The folder's own one comes before the default.
  ASSERT_EQ(run({"cluster", "switch", "--default", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("commands here still use lab.toml, which .paddlectl/current names"))
      << err_.str();
}

TEST_F(ClusterCommand, NamesMistakes) {
  EXPECT_EQ(run({"cluster", "switch"}), 2);
  EXPECT_TRUE(err_has("name the cluster file to switch to")) << err_.str();
  EXPECT_EQ(run({"cluster", "switch", "none.toml"}), 2);
  EXPECT_TRUE(err_has("cannot find cluster file 'none.toml'")) << err_.str();
  EXPECT_EQ(run({"cluster", "switch", "notes.toml"}), 2);
  EXPECT_EQ(run({"cluster", "lab.toml"}), 2);
  EXPECT_EQ(run({"cluster", "list", "lab.toml"}), 2);
  EXPECT_TRUE(err_has("cluster list takes no file")) << err_.str();
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl/current"));
}

TEST_F(ClusterCommand, StatusAndTeardownNameTheirs) {
  for (FakeNode& node : nodes_) node.unreachable = false;
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1 on cluster 't' (c.toml)\n")) << err_.str();
  ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("cluster": {"name": "t", "file": ")" + folder_ + R"(/c.toml"})"))
      << out_.str();
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(err_has("cluster 't' (c.toml): 2 nodes\n")) << err_.str();
}

TEST_F(ClusterCommand, UpTakesItsFileInEitherWay) {
  for (FakeNode& node : nodes_) node.unreachable = false;
  EXPECT_EQ(run({"up", "c.toml", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"up", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"up", "c.toml", "--cluster", "lab.toml"}), 2);
  EXPECT_TRUE(err_has("two cluster files: c.toml, and --cluster lab.toml")) << err_.str();
}

TEST_F(ClusterCommand, UpSaysThatAnotherClusterIsTheCurrentOneNow) {
  for (FakeNode& node : nodes_) node.unreachable = false;
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  EXPECT_FALSE(err_has("commands here now use")) << "the first one\n" << err_.str();
  ASSERT_EQ(run({"up", "lab.toml"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("commands here now use lab.toml, not c.toml (to go back: paddlectl cluster "
              "switch c.toml)\n"))
      << err_.str();
  ASSERT_EQ(run({"up", "lab.toml"}), 0) << err_.str();
  EXPECT_FALSE(err_has("commands here now use")) << err_.str();
  ASSERT_EQ(run({"up", "c.toml", "--on", "n-1"}), 0) << err_.str();
  EXPECT_TRUE(err_has("commands here now use c.toml, not lab.toml")) << err_.str();
  // One that fails leaves the current cluster as it was.
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"up", "lab.toml"}), 4);
  EXPECT_FALSE(err_has("commands here now use")) << err_.str();
  ASSERT_EQ(run({"cluster"}), 0);
  EXPECT_TRUE(out_has("t: c.toml")) << out_.str();
}

TEST_F(ClusterCommand, TheNoteOfAnotherClusterIsTrueWhateverNamesIt) {
  for (FakeNode& node : nodes_) node.unreachable = false;
  ASSERT_EQ(run({"cluster", "switch", "c.toml"}), 0) << err_.str();
  EXPECT_FALSE(err_has("commands here now use")) << err_.str();
  ASSERT_EQ(run({"cluster", "switch", "lab.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("commands here now use lab.toml, not c.toml")) << err_.str();
  // The default is hidden by the cluster of this folder.
  ASSERT_EQ(run({"up", "--default", "c.toml"}), 0) << err_.str();
  EXPECT_FALSE(err_has("commands here now use")) << err_.str();
  // It is the current one where the folder has none.
  fs::remove_all(folder_ + "/.paddlectl");
  ASSERT_EQ(run({"up", "--default", "lab.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("commands here now use lab.toml, not c.toml")) << err_.str();
  ::setenv("PADDLECTL_CLUSTER", (folder_ + "/c.toml").c_str(), 1);
  ASSERT_EQ(run({"up", "lab.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("commands here now use lab.toml, not c.toml")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
