// Jobs that end by Ctrl-C, or by a command at another terminal.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, CtrlCLetsTheJobSaveAndItGoesOnLater) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name == "trainer-1") interrupted_ = true;
  };
  EXPECT_EQ(train(), 75) << err_.str();
  EXPECT_TRUE(out_has("stopped: ")) << out_.str();
  EXPECT_TRUE(err_has("resume with: paddlectl train --resume --name job1")) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/pass-00000/MANIFEST"));
  const auto resumes = [this] {
    const auto& arguments = nodes_[1].specs["trainer-1"].arguments;
    return std::ranges::find(arguments, "--resume") != arguments.end();
  };
  EXPECT_FALSE(resumes());
  nodes_[1].on_start = nodes_[0].on_start;
  // As many processes as before, on more records than the old run left.
  ASSERT_EQ(run({"train", "--resume", "--detach", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "job1\n");
  EXPECT_TRUE(resumes());
  EXPECT_EQ(run({"train", "--resume", "w"}), 2);
  EXPECT_TRUE(err_has("job job1 still runs")) << err_.str();
}

TEST_F(CommandsTest, CtrlCBreaksAPushOff) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  interrupted_ = true;
  EXPECT_EQ(train(), 130);
  EXPECT_TRUE(err_has("interrupted: nothing was started; the files that were pushed are kept"))
      << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
}

TEST_F(CommandsTest, ASecondCtrlCEndsTheJobAtOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  for (FakeNode& node : nodes_) node.asked_exit = -1;
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name == "trainer-1") interrupted_ = true;
  };
  on_pause_ = [this] { interrupted_ = true; };
  EXPECT_EQ(train(), 130);
  EXPECT_TRUE(err_has("asking the job to stop and to save; Ctrl-C again ends it immediately\n"))
      << err_.str();
  EXPECT_EQ(err_.str().find("Ctrl-C again"), err_.str().rfind("Ctrl-C again")) << err_.str();
  for (FakeNode& node : nodes_) {
    for (const auto& process : node.processes)
      EXPECT_EQ(process.state, ProcessState::kExited) << process.name;
  }
}

TEST_F(CommandsTest, ATeardownElsewhereEndsTrainAtOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  for (FakeNode& node : nodes_) node.torn_down_after = 2;
  EXPECT_EQ(run({"attach"}), 130);
  EXPECT_TRUE(
      err_has("job 'job1' is no longer on its nodes: they have no folder of this cluster, as after "
              "paddlectl teardown at another terminal"))
      << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

TEST_F(CommandsTest, AStopNowElsewhereIsNoFault) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (const bool has_snapshot : {true, false}) {
    const std::string job = has_snapshot ? "saved" : "unsaved";
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"train", "--detach", "--name", job, "w"}), 0) << err_.str();
    if (has_snapshot) nodes_[0].files["jobs/saved/output/pass-00000/MANIFEST"] = "m";
    on_pause_ = [this] {
      for (FakeNode& node : nodes_) {
        for (ProcessStatus& status : node.processes) {
          if (status.state != ProcessState::kRunning) continue;
          status.state = status.name == "trainer-1" ? ProcessState::kExited : ProcessState::kKilled;
          status.exit_code = 4;  // it lost its pserver
          status.signal = 15;
          status.stopped = status.name != "trainer-1";
          status.stopped_by = "paddlectl stop --now of bob@desk, pid 7";
          status.stop_ordered = true;
          status.ended_unix_ms = 700;
        }
      }
    };
    EXPECT_EQ(run({"attach"}), has_snapshot ? 75 : 130) << err_.str();
    EXPECT_TRUE(err_has(
        job + " was ended by paddlectl stop --now of bob@desk, pid 7, without saving a snapshot"))
        << err_.str();
    EXPECT_FALSE(err_has("last lines")) << err_.str();
    EXPECT_TRUE(out_has("stopped: ")) << out_.str();
    EXPECT_TRUE(fs::exists(folder_ + "/output/" + job + "/node_0/server.log"));
    EXPECT_EQ(err_has("paddlectl train --resume --name saved"), has_snapshot) << err_.str();
    on_pause_ = nullptr;
  }
}

}  // namespace
}  // namespace paddle::cli
