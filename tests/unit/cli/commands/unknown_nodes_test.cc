// Commands on a cluster whose file was edited while a job runs.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class UnknownNodesTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& status : node.processes) {
        status.progress.emplace();
        status.progress->batch = status.progress->updates = 7;
      }
    }
    beside_ = {"n-0", "n-1"};
  }
  // The folders stay those of n-0 and n-1.
  void edit(const std::string& name, int count) {
    write("c.toml", fmt::format("name = \"t\"\n[[node]]\nname = \"{}\"\nlauncher = \"local\"\n"
                                "count = {}\n",
                                name, count));
    for (FakeNode& node : nodes_) node.torn_down = name != "n";
  }
};

TEST_F(UnknownNodesTest, ThatWereRenamedAreNamedByEveryCommand) {
  edit("m", 2);
  for (const auto& command : std::vector<std::vector<std::string>>{{"status"},
                                                                   {"stop"},
                                                                   {"jobs"},
                                                                   {"logs"},
                                                                   {"attach"},
                                                                   {"stop", "--job", "job1"},
                                                                   {"rm", "job1", "--yes"}}) {
    EXPECT_EQ(run(command), 2) << command.front();
    EXPECT_TRUE(
        err_has("folders of n-0, n-1, which are not in c.toml, are on the machines of this "
                "cluster"))
        << command.front() << err_.str();
    EXPECT_TRUE(err_has("hint: was a node renamed in c.toml")) << err_.str();
  }
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 2) << "their files and processes are there";
  EXPECT_TRUE(err_has("folders of n-0, n-1")) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/.paddlectl/current")) << "the cluster is not forgotten";
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("warning: folders of n-0, n-1, which are not in c.toml")) << err_.str();
}

TEST_F(UnknownNodesTest, ThatWereTakenOutAreMissedByTheirProcesses) {
  edit("n", 1);
  EXPECT_EQ(run({"status"}), 2);
  EXPECT_TRUE(out_has("job1 is incomplete: no node has pserver-1, trainer-1")) << out_.str();
  EXPECT_TRUE(
      err_has("a folder of n-1, which is not in c.toml, is on the machines of this cluster"))
      << err_.str();
  EXPECT_EQ(run({"status", "--json"}), 2);
  EXPECT_TRUE(out_has(R"("never_started": [], "lost": ["pserver-1", "trainer-1"])")) << out_.str();
  EXPECT_EQ(run({"jobs"}), 2);
  EXPECT_TRUE(err_has("job1 is incomplete: no node has pserver-1, trainer-1")) << err_.str();
  EXPECT_EQ(run({"stop", "--now"}), 2);
  EXPECT_TRUE(out_has("2 processes stopped")) << out_.str();
  EXPECT_TRUE(err_has("job1 is incomplete: no node has pserver-1, trainer-1")) << err_.str();
  EXPECT_EQ(running(), (std::vector<std::string>{"pserver-1", "trainer-1"}));
  beside_.clear();  // it was a machine of its own
  edit("n", 2);
  nodes_[0].processes.front().state = ProcessState::kRunning;
  edit("n", 1);
  EXPECT_EQ(run({"status"}), 4);
  EXPECT_TRUE(err_has("job1 is incomplete: no node has")) << err_.str();
}

TEST_F(UnknownNodesTest, AreNamedToWhoeverResumesWhatMayRunThere) {
  ASSERT_EQ(run({"fetch", "job1"}), 0) << err_.str();
  edit("m", 2);
  for (FakeNode& node : nodes_) {  // those of other names are elsewhere
    node.processes.clear();
    node.files.clear();
  }
  trainer_state_ = ProcessState::kExited;
  (void)run({"train", "--resume", "--name", "job1", "w"});
  EXPECT_TRUE(
      err_has("warning: folders of n-0, n-1, which are not in c.toml, are on the machines of this "
              "cluster; if job1 still runs there, it continues beside this run\n"))
      << err_.str();
}

TEST_F(UnknownNodesTest, AreNoneOfAClusterThatIsWhole) {
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"jobs"},
                                             {"stop", "--now"},
                                             {"up", "c.toml"},
                                             {"teardown", "--yes", "--discard"}}) {
    EXPECT_EQ(run(command), 0) << command.front() << err_.str();
    EXPECT_FALSE(err_has("not in c.toml")) << err_.str();
  }
}

TEST_F(UnknownNodesTest, OfAnEarlierReleaseAreNamedToo) {
  beside_ = {"."};
  edit("m", 2);
  EXPECT_EQ(run({"status"}), 2);
  EXPECT_TRUE(err_has("a folder of this cluster from an earlier release of paddlectl"))
      << err_.str();
}

}  // namespace
}  // namespace paddle::cli
