// The values that completion scripts ask for.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class CompleteTest : public CommandsTest {
 protected:
  // The values offered for the word, one a line.
  std::string offered(const std::string& kind, const std::string& word,
                      std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"__complete", kind, word, "paddlectl"});
    EXPECT_EQ(run(std::move(words)), 0);
    EXPECT_EQ(err_.str(), "");
    return out_.str();
  }
};

TEST_F(CompleteTest, NodesAndGroupsComeFromTheClusterFileAlone) {
  write("g.toml", "[[node]]\nhost = \"a[1-2]\"\ngroups = [\"gpu\"]\n[[node]]\nhost = \"b\"\n");
  for (FakeNode& node : nodes_) node.unreachable = true;
  EXPECT_EQ(offered("nodes", ""), "") << "no current cluster is no error";
  const std::vector<std::string> cluster{"--cluster", "g.toml"};
  EXPECT_EQ(offered("nodes", "", cluster), "a1\na2\nall\nb\ngpu\n");
  EXPECT_EQ(offered("nodes", "a1,!b", {"--cluster=g.toml"}), "a1,!b\n");
  EXPECT_EQ(offered("nodes", "--on=g", {"--cluster", "=", "g.toml"}), "gpu\n");
}

TEST_F(CompleteTest, JobsAreThoseFetchedAndThoseOfNodesHere) {
  write("here.toml", "name = \"t\"\nworkdir = \"" + folder_ +
                         "/nodes\"\n[[node]]\nname = \"n\"\n"
                         "launcher = \"local\"\ncount = 2\n");
  write("output/fetched/job.toml", "");
  write("output/bad $(x)/job.toml", "");
  EXPECT_EQ(offered("jobs", ""), "fetched\n");
  write("nodes/t/n-1/jobs/running/x", "");
  const std::string all = offered("jobs", "", {"--cluster", "here.toml"});
  EXPECT_EQ(all, "fetched\nrunning\n");
  EXPECT_EQ(offered("jobs", "r", {"--cluster", "here.toml"}), "running\n");
}

TEST_F(CompleteTest, RolesKeysAndCommands) {
  EXPECT_EQ(offered("roles", ""), "pserver\ntrainer\n");
  EXPECT_EQ(offered("keys", "train.pas"), "train.passes=\n");
  EXPECT_EQ(
      offered("keys", "optimizer.learning_rate", {"train", "w"}).find("optimizer.learning_rate=\n"),
      0U);
  EXPECT_EQ(offered("commands", "tra"), "train\n");
  EXPECT_EQ(offered("nonsense", ""), "");
  EXPECT_EQ(run({"__complete"}), 0);
}

}  // namespace
}  // namespace paddle::cli
