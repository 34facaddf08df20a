// Claims of train on ports and on a job's name, beside other jobs.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

// A pserver of the job "other".
ProcessStatus running_pserver(int pid) {
  ProcessStatus status;
  status.job = "other";
  status.name = "pserver-0";
  status.pid = pid;
  status.state = ProcessState::kRunning;
  return status;
}

// Whether a process of the node has the port 7164.
bool takes_port_7164(const FakeNode& node) {
  return std::ranges::any_of(node.specs, [](const auto& process) {
    return std::ranges::count(process.second.arguments, "--port=7164") > 0;
  });
}

TEST_F(CommandsTest, TrainStartsNothingWhenAPortIsTaken) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].taken_ports[7164] = "pid 9 (x)";
  EXPECT_EQ(train(), 7);
  EXPECT_TRUE(
      err_has("node n-0: port 7164 on 127.0.0.1 is taken by pid 9 (x); nothing was started"));
  EXPECT_TRUE(nodes_[0].processes.empty());
  EXPECT_TRUE(nodes_[1].processes.empty());
}

TEST_F(CommandsTest, AJobTakesThePortsAfterThoseOfARunningOne) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].processes.push_back(running_pserver(77));
  nodes_[0].taken_ports[7164] = "pid 77 (paddle)";
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("other is running on these nodes")) << err_.str();
  EXPECT_TRUE(std::ranges::none_of(nodes_, takes_port_7164));
}

// Nodes on one machine have the same ports.
TEST_F(CommandsTest, AJobTakesThePortsAfterThoseOfAJobOnAnotherNodeOfTheMachine) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].processes.push_back(running_pserver(77));
  nodes_[0].taken_ports[7164] = nodes_[1].taken_ports[7164] = "pid 77 (paddle)";
  ASSERT_EQ(run({"train", "--on", "n-0", "--trainers", "1", "--pservers", "1", "w"}), 0)
      << err_.str();
  EXPECT_TRUE(err_has("other is running on these nodes")) << err_.str();
  EXPECT_FALSE(takes_port_7164(nodes_[0]));
  // A node that does not answer keeps no job from starting.
  nodes_[1].unreachable = true;
  nodes_[0].taken_ports.clear();
  EXPECT_EQ(run({"train", "--on", "n-0", "--trainers", "1", "--pservers", "1", "w"}), 0)
      << err_.str();
}

TEST_F(CommandsTest, AJobTakesThePortsAfterThoseOfOneThatIsBeingStarted) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].claimed_ports = {7164};
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("take the ports from ")) << err_.str();
  EXPECT_FALSE(takes_port_7164(nodes_[0]));
}

TEST_F(CommandsTest, TrainNamesANodeThatIsLostWhileItsPortsAreClaimed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].breaks_after = 1;
  EXPECT_EQ(train(), 4);
  EXPECT_TRUE(err_has("node n-0: gone")) << err_.str();
  // Beside another job as well, where the next ports are tried.
  nodes_[0].claimed_ports = {7164};
  nodes_[0].breaks_after = 2;
  EXPECT_EQ(train(), 4);
  EXPECT_TRUE(err_has("node n-0: gone")) << err_.str();
  EXPECT_TRUE(nodes_[0].specs.empty() && nodes_[1].specs.empty());
}

TEST_F(CommandsTest, TrainTouchesNothingOfAJobThatSomebodyElseStarts) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].starting = {"job1"};
  // Somebody else's pserver comes up while the loser is being refused.
  nodes_[0].on_claim = [](FakeNode& fake) {
    remote::ProcessStatus theirs;
    theirs.job = "job1";
    theirs.name = "pserver-0";
    theirs.state = ProcessState::kRunning;
    fake.processes.push_back(theirs);
  };
  EXPECT_EQ(train(), 2);
  EXPECT_TRUE(err_has("another paddlectl is starting"));
  ASSERT_EQ(nodes_[0].processes.size(), 1U);
  EXPECT_EQ(nodes_[0].processes[0].state, ProcessState::kRunning);
  for (const auto& [path, content] : nodes_[0].files)
    EXPECT_FALSE(path.starts_with("jobs/")) << path << " is pushed before the job is its own";
  // A name that nobody asked for is another one at once.
  nodes_[0].on_claim = nullptr;
  nodes_[1].starting = {"w-19700101-000000"};
  EXPECT_EQ(run({"train", "w"}), 0) << err_.str();
  EXPECT_EQ(nodes_[0].claimed_job, "w-19700101-000000-2");
}

}  // namespace
}  // namespace paddle::cli
