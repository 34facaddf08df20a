// stop of a running job, with --now and without.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, StatusLogsStopAndTeardownOfARunningJob) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "job1\n");
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_has("trainer-1")) << out_.str();
  ASSERT_EQ(run({"logs", "--node", "n-1", "--role", "trainer", "--tail", "1"}), 0);
  EXPECT_EQ(out_.str(), "n-1/trainer-1 | bad record in data/train-00000:7\n");
  EXPECT_EQ(run({"logs", "--node", "n-7"}), 2);
  EXPECT_EQ(run({"status", "--job", "other"}), 2);
  EXPECT_TRUE(err_has("jobs here: job1"));
  nodes_[0].asked_exit = -1;
  EXPECT_EQ(run({"stop"}), 1);
  EXPECT_TRUE(
      err_has("waiting for trainer-0 to save; paddlectl stop --now job1 ends it immediately"))
      << err_.str();
  EXPECT_TRUE(
      err_has("error: job1 was asked to stop 600 s ago and still runs\n"
              "hint: end it immediately: paddlectl stop --now --job job1\n"))
      << err_.str();
  EXPECT_EQ(nodes_[0].processes.front().state, ProcessState::kRunning);
  ASSERT_EQ(run({"stop", "--now"}), 0);
  EXPECT_TRUE(out_has("3 processes stopped")) << out_.str();
  nodes_[1].remaining = {"pid 7: not ours to end"};
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 1);
  EXPECT_TRUE(err_has("node n-1: these remain:\n  pid 7"));
  nodes_[1].remaining.clear();
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0);
  EXPECT_TRUE(nodes_[0].torn_down);
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, StopLetsTrainersSaveUnlessItIsNow) {
  trainer_state_ = ProcessState::kRunning;
  const auto exit_codes = [&] {
    std::vector<int> codes;
    for (const FakeNode& node : nodes_) {
      for (const ProcessStatus& process : node.processes) {
        if (process.name.starts_with("trainer-")) codes.push_back(process.exit_code);
      }
    }
    return codes;
  };
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"stop", "--now"}), 0) << err_.str();
  EXPECT_TRUE(running().empty());
  EXPECT_EQ(exit_codes(), (std::vector<int>{0, 0})) << "nobody asked them to save";
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"stop"}), 0) << err_.str();
  EXPECT_TRUE(running().empty());
  EXPECT_EQ(exit_codes(), (std::vector<int>{0, 75, 0, 75}));
  EXPECT_EQ(run({"stop"}), 0) << err_.str();
  EXPECT_TRUE(out_has("job2: no process was running")) << out_.str();
}

TEST_F(CommandsTest, AStopThatCouldNotSaveIsNoSuccess) {
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& process : node.processes) {
      if (process.name == "trainer-0")
        process.failure =
            Error{Errc::kResource, "write pass-00001.tmp/w: No space left", "make room"};
    }
    node.asked_exit = static_cast<int>(Errc::kResource);
  }
  EXPECT_EQ(run({"stop"}), 7);
  EXPECT_TRUE(running().empty());
  EXPECT_NE(err_.str().find("trainer-0 on"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("No space left"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("make room"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"jobs"}), 0);
  EXPECT_NE(out_.str().find("failed: trainer-0 exited with code 7"), std::string::npos)
      << out_.str();
}

// A job that runs, with a snapshot on the node of trainer 0.
class StoppedJob : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--trainers", "2", "--set",
                   "train.batch_size=3", "w"}),
              0)
        << err_.str();
  }
  static constexpr const char* kResume =
      "resume with: paddlectl train --resume --name job1 --detach --trainers 2 --set "
      "train.batch_size=3 w\n";
};

TEST_F(StoppedJob, HasTheCommandThatResumesItInTheMessageOfStop) {
  ASSERT_EQ(run({"stop", "job1"}), 0) << err_.str();
  EXPECT_TRUE(err_has(kResume)) << err_.str();
  ASSERT_EQ(run({"stop", "job1"}), 0) << err_.str();
  EXPECT_TRUE(err_has(kResume)) << "of a job that has ended before\n" << err_.str();
  ASSERT_EQ(run({"stop", "job1", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"stopped\": 0}\n");
}

TEST_F(StoppedJob, HasTheCommandAfterAStopWithoutASaveToo) {
  for (FakeNode& node : nodes_) node.ended_exit = 130;
  ASSERT_EQ(run({"stop", "--now", "job1"}), 0) << err_.str();
  EXPECT_TRUE(err_has(kResume)) << err_.str();
}

TEST_F(StoppedJob, WithoutASnapshotHasTheWaysToBeginAgain) {
  nodes_[0].files.erase("jobs/job1/output/pass-00000/MANIFEST");
  ASSERT_EQ(run({"stop", "job1"}), 0) << err_.str();
  EXPECT_FALSE(err_has("resume with")) << err_.str();
  EXPECT_TRUE(
      err_has("it has saved no snapshot; start it again from its beginning: paddlectl "
              "restart job1; or remove it: paddlectl rm job1\n"))
      << err_.str();
}

TEST_F(StoppedJob, ThatIsDoneHasNone) {
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& process : node.processes) process.state = ProcessState::kExited;
  }
  ASSERT_EQ(run({"stop", "job1"}), 0) << err_.str();
  EXPECT_TRUE(out_has("job1: no process was running")) << out_.str();
  EXPECT_FALSE(err_has("--resume")) << err_.str();
  EXPECT_FALSE(err_has("paddlectl restart")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
