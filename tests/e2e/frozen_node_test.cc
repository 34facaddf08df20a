// A node that hangs: its sshd is stopped, so connections stay open and nothing is answered.
#include <signal.h>

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/ssh_cluster_test_fixture.h"

namespace paddle::test {
namespace {

constexpr std::size_t kFrozen = 1;  // bravo
// A connection or an answer that does not come; several of them one after the other.
constexpr std::chrono::seconds kPatience{150};
constexpr int kUnreachable = 4;

class FrozenNodeTest : public SshClusterTest {
 protected:
  void SetUp() override {
    SshClusterTest::SetUp();
    if (IsSkipped()) return;
    Process up = begin({"up", "cluster.toml", "--timeout", "60"});
    const Outcome ready = outcome_of(up);
    ASSERT_EQ(ready.code, 0) << ready.output;
  }
  void TearDown() override {
    if (!IsSkipped()) sshd(kFrozen).thaw();
    SshClusterTest::TearDown();
  }
  static Outcome outcome_of(Process& process) {
    const auto code = process.wait(kPatience);
    return {code.value_or(-1), process.output()};
  }
  static void expect_named(const Outcome& outcome, const std::string& command) {
    EXPECT_EQ(outcome.code, kUnreachable) << command << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find("node bravo: "), std::string::npos) << command << "\n"
                                                                      << outcome.output;
    for (const char* other : {"node alpha: ", "node charlie: "}) {
      EXPECT_EQ(outcome.output.find(other), std::string::npos) << command << "\n" << outcome.output;
    }
  }
};

TEST_F(FrozenNodeTest, EveryCommandEndsNamesItAndDoesTheOthers) {
  sshd(kFrozen).freeze();
  write_user_file("file", "content");
  // Each with a word that its output has for each of the other nodes.
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"up", "cluster.toml"}, " free  ready"},
      {{"check"}, ""},
      {{"exec", "--", "hostname"}, ""},
      {{"exec", "--shell", "echo reached $SSH_CONNECTION"}, "reached"},
      {{"put", "file", "/tmp/"}, ""},
      {{"jobs"}, ""},
      {{"train", "--trainers", "3", "--pservers", "2", "--name", "none", "job"}, ""},
  };
  std::vector<Process> begun;
  for (const auto& [command, word] : commands) begun.push_back(begin(command));
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto& [command, word] = commands[i];
    const Outcome outcome = outcome_of(begun[i]);
    expect_named(outcome, command[0]);
    if (word.empty()) continue;
    EXPECT_EQ(count_of(outcome.output, word), 2U) << outcome.output;
  }
  expect_no_engine();
  Process teardown = begin({"teardown", "--yes", "--discard"});
  const Outcome of_others = outcome_of(teardown);
  expect_named(of_others, "teardown");
  EXPECT_EQ(count_of(of_others.output, "clean"), 2U) << of_others.output;

  sshd(kFrozen).thaw();
  const Outcome after = run({"exec", "--", "true"});
  EXPECT_EQ(after.code, 0) << after.output;
  const Outcome torn_down = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  expect_clean_nodes();
}

TEST_F(FrozenNodeTest, CtrlCOfExecNamesTheNodeOnWhichTheCommandMayStillRun) {
  const auto are_running = [&](std::size_t count) {
    const auto all = processes();
    return static_cast<std::size_t>(std::ranges::count_if(all, [](const NodeProcess& process) {
             return process.command.starts_with("sleep 1000");
           })) == count;
  };
  Process exec = begin({"exec", "--shell", "cd '" + workdir(0) + "'; exec sleep 1000"});
  ASSERT_TRUE(wait_until([&] { return are_running(kNodes.size()); })) << exec.output();
  sshd(kFrozen).freeze();
  exec.signal(SIGINT);
  const Outcome outcome = outcome_of(exec);
  EXPECT_EQ(outcome.code, 130) << outcome.output;
  EXPECT_NE(outcome.output.find("interrupted; the command may still run on bravo\n"),
            std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("result unknown"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("check those nodes then"), std::string::npos) << outcome.output;
  EXPECT_TRUE(wait_until([&] { return are_running(1); })) << "those of the others ended";
  sshd(kFrozen).thaw();
  expect_no_process();
}

TEST_F(FrozenNodeTest, ATrainingJobGoesOnAndItsTerminalIsToldWhy) {
  slow_job_down();
  Process job = begin({"train", "--trainers", "3", "--pservers", "2", "--name", "long", "--set",
                       "train.passes=100000", "job"});
  ASSERT_TRUE(job.prints("pass 1", kPatience)) << job.output();
  const std::size_t before = engines().size();
  sshd(kFrozen).freeze();
  const Outcome outcome = outcome_of(job);
  expect_named(outcome, "train");
  EXPECT_NE(outcome.output.find("nothing was stopped"), std::string::npos) << outcome.output;
  EXPECT_EQ(engines().size(), before);

  Process status = begin({"status"});
  const Outcome told = outcome_of(status);
  expect_named(told, "status");
  EXPECT_NE(told.output.find("trainer-0"), std::string::npos) << "of a node that answers\n"
                                                              << told.output;
  sshd(kFrozen).thaw();
  const Outcome stopped = run({"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  expect_no_engine();
}

// The processes of the job stand still on this node too, and the others wait for them.
TEST_F(FrozenNodeTest, AJobThatWaitsForItEndsOnTheOthersWhateverItsRestarts) {
  slow_job_down();
  // Without --timeout it would be awaited for ten minutes.
  Process job = begin({"train", "--trainers", "3", "--pservers", "2", "--restarts", "5",
                       "--timeout", "20", "--name", "long", "--set", "train.passes=100000", "job"});
  ASSERT_TRUE(job.prints("pass 1", kPatience)) << job.output();
  std::vector<int> frozen;
  for (const NodeProcess& engine : engines()) {
    if (engine.command.starts_with(workdir(kFrozen) + "/")) frozen.push_back(engine.pid);
  }
  EXPECT_EQ(frozen.size(), 2U) << "pserver-1 and trainer-1";
  for (const int pid : frozen) ::kill(pid, SIGSTOP);
  sshd(kFrozen).freeze();
  const Outcome outcome = outcome_of(job);
  expect_named(outcome, "train");
  EXPECT_NE(outcome.output.find("makes no progress without it; the rest of the job was stopped"),
            std::string::npos)
      << outcome.output;
  for (const NodeProcess& engine : engines())
    EXPECT_TRUE(engine.command.starts_with(workdir(kFrozen) + "/")) << engine.command;
  sshd(kFrozen).thaw();
  for (const int pid : frozen) ::kill(pid, SIGCONT);
  const Outcome stopped = run({"stop", "--now"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  expect_no_engine();
}

}  // namespace
}  // namespace paddle::test
