// train: which nodes a job gets.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class TrainNodes : public CommandsTest {
 protected:
  int start(const std::string& name, std::vector<std::string> more = {}) {
    trainer_state_ = ProcessState::kRunning;
    std::vector<std::string> words{"train",      "--detach", "--trainers", "1",
                                   "--pservers", "1",        "--name",     name};
    words.insert(words.end(), more.begin(), more.end());
    words.emplace_back("w");
    return run(words);
  }
  std::size_t running_on(std::size_t node, const std::string& job) const {
    std::size_t count = 0;
    for (const ProcessStatus& process : nodes_[node].processes) {
      if (process.job == job && process.state == ProcessState::kRunning) ++count;
    }
    return count;
  }
};

TEST_F(TrainNodes, ASecondJobGetsTheIdleNodes) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(start("a"), 0) << err_.str();
  EXPECT_FALSE(err_has("another job")) << err_.str();
  ASSERT_EQ(start("b"), 0) << err_.str();
  EXPECT_TRUE(err_has("n-0 runs another job: idle nodes are used first")) << err_.str();
  EXPECT_EQ(running_on(0, "a"), 2U);
  EXPECT_EQ(running_on(0, "b"), 0U);
  EXPECT_EQ(running_on(1, "b"), 2U);
  ASSERT_EQ(start("c"), 0) << err_.str();
  EXPECT_EQ(running_on(0, "c"), 2U) << "all are busy alike: in their order";
}

TEST_F(TrainNodes, ANodeWhoseJobHasEndedIsIdle) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(start("a"), 0) << err_.str();
  for (ProcessStatus& process : nodes_[0].processes) process.state = ProcessState::kExited;
  ASSERT_EQ(start("b"), 0) << err_.str();
  EXPECT_EQ(running_on(0, "b"), 2U);
}

TEST_F(TrainNodes, NodesThatAreNamedAreUsedWhateverTheyRun) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(start("a"), 0) << err_.str();
  ASSERT_EQ(start("b", {"--on", "n-0"}), 0) << err_.str();
  EXPECT_EQ(running_on(0, "b"), 2U);
}

TEST_F(TrainNodes, NodesThatUpLeftOutAreLeftOutByTrainAndExecToo) {
  nodes_[1].unreachable = true;
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("left out, as in `up --any`: n-1; once it answers again, run paddlectl up"))
      << err_.str();
  EXPECT_EQ(run({"exec", "--", "true"}), 0) << err_.str();
  EXPECT_TRUE(err_has("left out, as in `up --any`: n-1")) << err_.str();
  EXPECT_EQ(run({"train", "--on", "n-1", "w"}), 4) << "it is asked for";
  // One that fails only now is named.
  nodes_[1].unreachable = false;
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"train", "w"}), 4);
  EXPECT_FALSE(err_has("left out")) << err_.str();
  EXPECT_TRUE(err_has("train on the others: --on n-0")) << err_.str();
  EXPECT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 4);
  EXPECT_TRUE(err_has("train on the others: --on n-0")) << err_.str();
}

TEST_F(TrainNodes, NodesThatUpLeftOutAreLeftOutByPutAndPlanToo) {
  nodes_[1].unreachable = true;
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"put", "w/data/test.txt", "kept.txt"}), 0) << err_.str();
  EXPECT_TRUE(err_has("left out, as in `up --any`: n-1")) << err_.str();
  write("w/job.toml", "[trainer]\ncommand = [\"./train\"]\n");
  EXPECT_EQ(run({"plan", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "trainer-0     n-0                 ./train\n");
  EXPECT_EQ(run({"put", "--on", "n-1", "w/data/test.txt", "kept.txt"}), 4) << "it is asked for";
}

TEST_F(TrainNodes, AllTrainersGoToTheNodesThatUpDidNotLeaveOut) {
  nodes_[0].unreachable = true;
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--trainers", "2", "--pservers", "1", "--name", "a", "w"}), 0)
      << err_.str();
  EXPECT_EQ(running_on(0, "a"), 0U);
  EXPECT_EQ(running_on(1, "a"), 3U);
}

TEST_F(TrainNodes, UpWithAllNodesEndsTheLeavingOut) {
  nodes_[1].unreachable = true;
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  nodes_[1].unreachable = false;
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("left out")) << err_.str();
  ASSERT_EQ(run({"up"}), 0) << err_.str();
  ASSERT_EQ(run({"train", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("left out")) << err_.str();
  EXPECT_TRUE(err_has("2 trainers")) << err_.str();
}

TEST_F(TrainNodes, AProgramOfOnesOwnHasPserversOnlyWhereTheyAreAskedFor) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/job.toml", "[trainer]\ncommand = [\"./train\", \"now\"]\n");
  ASSERT_EQ(run({"plan", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "trainer-0     n-0                 ./train now\n"
            "trainer-1     n-1                 ./train now\n");
  ASSERT_EQ(run({"train", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1: 2 trainers on 2 nodes")) << err_.str();
  ASSERT_EQ(run({"train", "--pservers", "1", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job2: 2 trainers, 1 pserver on 2 nodes")) << err_.str();
  write("w/job.toml", kJob);
  ASSERT_EQ(run({"train", "--name", "job3", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job3: 2 trainers, 2 pservers on 2 nodes")) << err_.str();
}

TEST_F(TrainNodes, AProgramOfOnesOwnGetsNoPserversWithMoreTrainersOrOnFewerNodes) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/job.toml", "[trainer]\ncommand = [\"./train\"]\n");
  ASSERT_EQ(run({"train", "--trainers", "4", "--name", "a", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job a: 4 trainers on 2 nodes")) << err_.str();
  ASSERT_EQ(run({"train", "--on", "n-1", "--name", "b", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job b: 1 trainer on 1 node")) << err_.str();
}

TEST_F(TrainNodes, TheWorkspacesSnapshotsStayHere) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/saved/pass-00000/MANIFEST", "snapshot format=4 engine=0.1.0 id=1\n");
  write("w/saved/pass-00000/table", "x");
  write("w/package/MANIFEST", "files of my package\n");
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(
      err_has("1 snapshot in the workspace is not pushed: saved/pass-00000; a line "
              "!saved/pass-00000 in .paddleignore pushes it"))
      << err_.str();
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/saved/pass-00000/table"));
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/workspace/package/MANIFEST"));
  write("w/.paddleignore", "!saved/pass-00000\n");
  ASSERT_EQ(run({"train", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("not pushed")) << err_.str();
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job2/workspace/saved/pass-00000/table"));
}

TEST_F(TrainNodes, CtrlCIsExplainedWhereItMeansTwoThings) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("Ctrl-C saves and stops the job\n")) << err_.str();
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("Ctrl-C")) << err_.str();
  ASSERT_EQ(run({"attach", "job2"}), 0) << err_.str();
  EXPECT_TRUE(err_has("Ctrl-C leaves job2 running\n")) << err_.str();
  ASSERT_EQ(run({"attach", "job2"}), 0) << err_.str();
  EXPECT_FALSE(err_has("Ctrl-C")) << "it has ended: " << err_.str();
}

TEST_F(TrainNodes, CtrlCIsExplainedWhereAJobGoesOn) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("Ctrl-C saves and stops the job\n")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
