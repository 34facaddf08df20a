// restart and rm: jobs by name.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AJobIsRestartedAndRemovedByName) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--restarts", "2", "w"}), 0);
  EXPECT_EQ(nodes_[1].specs["trainer-1"].restarts, 2U);
  EXPECT_EQ(run({"rm", "job1"}), 2);
  EXPECT_TRUE(err_has("job job1 still runs: pserver-0 on n-0")) << err_.str();
  ASSERT_EQ(run({"restart", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"state\": \"running\"}\n");
  EXPECT_TRUE(err_has("2 pservers ready")) << err_.str();
  EXPECT_EQ(run({"restart", "trainer-7"}), 2);
  ASSERT_EQ(run({"stop"}), 0);
  EXPECT_EQ(run({"rm"}), 2);
  EXPECT_EQ(run({"rm", "job1", "job2"}), 2);
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
  ASSERT_EQ(run({"rm", "job1", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
}

TEST_F(CommandsTest, TheHintOfALossNamesTheOneJobAndTheStepsThatApply) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes"}), 2);
  EXPECT_TRUE(
      err_has("\nhint: end it: paddlectl stop --job job1; fetch it: paddlectl fetch --job job1; or "
              "discard it: --yes --discard\n"))
      << err_.str();
  ASSERT_EQ(run({"stop", "--now"}), 0);
  EXPECT_EQ(run({"teardown", "--yes"}), 2);
  EXPECT_TRUE(
      err_has("\nhint: fetch it: paddlectl fetch --job job1; or discard it: --yes --discard\n"))
      << err_.str();
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes"}), 2);
  EXPECT_TRUE(err_has("fetch it: paddlectl fetch --job <job>; ")) << "two jobs: " << err_.str();
}

TEST_F(CommandsTest, AFinishedJobIsNotRestarted) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  const int pid = nodes_[0].next_pid;
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"trainer-0"}}) {
    std::vector<std::string> arguments{"restart"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(run(arguments), 2);
    EXPECT_TRUE(err_has("job job1 is done")) << err_.str();
    EXPECT_TRUE(err_has("paddlectl train --resume --name job1 --set train.passes=N")) << err_.str();
  }
  EXPECT_EQ(nodes_[0].next_pid, pid) << "nothing was started";
}

TEST_F(CommandsTest, AJobIsRemovedWithoutANodeThatUpLeftOut) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"rm", "job1", "--yes"}), 4) << err_.str();
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  ASSERT_EQ(run({"rm", "job1", "--yes"}), 0) << err_.str();
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
  EXPECT_TRUE(
      err_has("the files that n-1 has of job1 stay there; remove them with the same command once "
              "it answers"))
      << err_.str();
  nodes_[1].unreachable = false;
  ASSERT_EQ(run({"rm", "job1", "--yes"}), 0) << err_.str();
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/workspace/job.toml"));
}

TEST_F(CommandsTest, WhatABrokenStartLeftIsRemovedByName) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].files["jobs/broken/workspace/job.toml"] = "x";
  EXPECT_EQ(run({"rm", "broken"}), 2);
  EXPECT_TRUE(nodes_[1].files.contains("jobs/broken/workspace/job.toml"));
  ASSERT_EQ(run({"rm", "broken", "--yes"}), 0) << err_.str();
  EXPECT_FALSE(nodes_[1].files.contains("jobs/broken/workspace/job.toml"));
  EXPECT_EQ(run({"rm", "broken"}), 2);
}

TEST_F(CommandsTest, ARemovalThatIsNotConfirmedSaysSo) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].files["jobs/broken/workspace/job.toml"] = "x";
  EXPECT_EQ(run({"rm"}), 2);
  EXPECT_TRUE(err_has("error: rm needs the name of a job, or --ended\n")) << err_.str();
  EXPECT_EQ(run({"rm", "broken", "--ended"}), 2);
  EXPECT_TRUE(err_has("error: --ended takes no job names\n")) << err_.str();
  EXPECT_EQ(run({"rm", "broken"}), 2);
  EXPECT_TRUE(err_has("this removes from the nodes:\n  broken: ")) << err_.str();
  EXPECT_TRUE(err_has("error: nothing was removed, because it was not confirmed\n")) << err_.str();
  EXPECT_EQ(err_.str().find("  broken: "), err_.str().rfind("  broken: ")) << "it is listed once";
  EXPECT_TRUE(err_has("hint: in a script, add --yes; --dry-run lists what would be removed\n"))
      << err_.str();
  EXPECT_EQ(run({"rm", "broken", "--json"}), 2);
  EXPECT_TRUE(err_has("it was not confirmed; this would be removed:\\n  broken: ")) << err_.str();
  ask_ = [](std::string_view, bool) { return "n"; };
  EXPECT_EQ(run({"rm", "broken"}), 2);
  EXPECT_TRUE(
      err_has("error: cancelled; nothing was removed\n"
              "hint: run the command again and answer y to remove it\n"))
      << err_.str();
}

TEST_F(CommandsTest, WhatSomebodyStartsIsNotRemoved) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (FakeNode& node : nodes_) node.files["jobs/starting/workspace/job.toml"] = "x";
  nodes_[1].starting.insert("starting");
  EXPECT_EQ(run({"rm", "starting", "--yes"}), 2);
  EXPECT_TRUE(err_has("paddlectl train of bob@desk, pid 7, starts starting")) << err_.str();
  for (FakeNode& node : nodes_)
    EXPECT_TRUE(node.files.contains("jobs/starting/workspace/job.toml"));
}

TEST_F(CommandsTest, AProcessOfAJobThatSomebodyEndsMeanwhileIsNotStartedAgain) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--restarts", "2", "w"}), 0);
  nodes_[0].on_claim = [this](FakeNode&) {  // just before that of the restart
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) {
        process.state = ProcessState::kKilled;
        process.stopped = true;
        process.stopped_by = "paddlectl stop --now of bob@desk, pid 7";
      }
    }
  };
  EXPECT_EQ(run({"restart", "job1", "trainer-1"}), 2) << err_.str();
  EXPECT_TRUE(err_has("job job1 was ended meanwhile by paddlectl stop --now of bob@desk, pid 7"))
      << err_.str();
  EXPECT_TRUE(running().empty());
}

TEST_F(CommandsTest, HalfAJobIsNotStartedAgain) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_exit_ = 75;
  ASSERT_EQ(train(), 75) << err_.str();
  std::erase_if(nodes_[1].processes,
                [](const ProcessStatus& process) { return process.name == "trainer-1"; });
  const int pid = nodes_[0].next_pid;
  EXPECT_EQ(run({"restart", "job1"}), 2) << err_.str();
  EXPECT_TRUE(err_has("job job1 is incomplete: no node has trainer-1; it was not started again"))
      << err_.str();
  EXPECT_TRUE(err_has("continue from its last snapshot: paddlectl train --resume --name job1"))
      << err_.str();
  EXPECT_EQ(nodes_[0].next_pid, pid) << "nothing was started";
  fs::remove_all(folder_ + "/output");
  for (FakeNode& node : nodes_) {
    std::erase_if(node.files,
                  [](const auto& file) { return file.first.starts_with("jobs/job1/output/"); });
  }
  EXPECT_EQ(run({"restart", "job1"}), 2) << err_.str();
  EXPECT_TRUE(
      err_has("no node has a snapshot of it; to start from the beginning: paddlectl rm job1"))
      << err_.str();
}

TEST_F(CommandsTest, ARemovalWaitsForTheStopThatIsAtWork) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  for (FakeNode& node : nodes_)
    node.claims.push_back({nullptr, "job1", {JobCommand::kStop, "bob@desk, pid 7"}});
  on_pause_ = [this] {  // the stop comes to its end
    for (FakeNode& node : nodes_) {
      node.claims.clear();
      for (ProcessStatus& process : node.processes) process.state = ProcessState::kKilled;
    }
  };
  EXPECT_EQ(run({"rm", "job1", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("paddlectl stop of bob@desk, pid 7, saves and ends job1: waiting for its end"))
      << err_.str();
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
}

TEST_F(CommandsTest, ARestartOfOneProcessSaysWhereItContinues) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--restarts", "2", "w"}), 0) << err_.str();
  const auto restart = [&](const std::string& name, bool reports) {
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) process.reports = reports;
    }
    EXPECT_EQ(run({"restart", "job1", name}), 0) << err_.str();
    EXPECT_FALSE(out_has("snapshot")) << out_.str();
    return out_.str();
  };
  const std::string rest =
      ", while the others continue or wait for it; this restart does not count for --restarts\n";
  EXPECT_EQ(restart("trainer-1", true),
            "trainer-1 on n-1 is started again and continues at its batch" + rest);
  EXPECT_EQ(restart("pserver-0", true),
            "pserver-0 on n-0 is started again and loads its copy from some seconds ago" + rest);
  EXPECT_EQ(restart("trainer-0", false),
            "trainer-0 on n-0 is started again and loads what it has saved" + rest)
      << "a program of the user's own";
  EXPECT_EQ(run({"restart", "job1", "trainer-1", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), R"({"job": "job1", "process": "trainer-1", "state": "running"})"
                        "\n");
}

}  // namespace
}  // namespace paddle::cli
