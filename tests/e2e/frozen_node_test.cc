// A node that hangs: its sshd is stopped, so connections stay open and nothing is answered.
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

TEST_F(FrozenNodeTest, ATrainingJobGoesOnAndItsTerminalIsToldWhy) {
  write_long_data();
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

}  // namespace
}  // namespace paddle::test
