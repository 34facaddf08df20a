// logs: lines of all nodes in order, of an incarnation before, and as they come.
#include <fmt/format.h>

#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, LogsOfThePreviousStartEndWhereTheLastOneBegins) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  EXPECT_EQ(run({"logs", "--previous"}), 2);
  EXPECT_TRUE(err_has("job job1 has no earlier logs")) << err_.str();
  for (ProcessStatus& process : nodes_[0].processes) {
    if (process.name == "trainer-0") process.incarnation = 3;
  }
  nodes_[0].files["jobs/job1/node_0/train.log"] =
      "one\npaddlectl: start 2\ntwo\nlast words\npaddlectl: start 3\nthree\n";
  ASSERT_EQ(run({"logs", "--previous"}), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      "n-0/trainer-0 | paddlectl: start 2\nn-0/trainer-0 | two\nn-0/trainer-0 | last words\n");
  EXPECT_EQ(run({"logs", "--previous", "-f"}), 2);
  ASSERT_EQ(run({"logs", "--previous", "-n", "1"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | last words\n");
  nodes_[0].times["jobs/job1/node_0/train.log"] = {{0, 1000}, {4, 2000}, {27, 3000}, {38, 4000}};
  nodes_[0].usage.unix_ms = 5000;
  ASSERT_EQ(run({"logs", "--previous", "--since", "2s"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | last words\n");
}

TEST_F(CommandsTest, LogsOfNobodyAreAMistake) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  EXPECT_EQ(run({"logs", "--role", "pserver-9"}), 2);
  EXPECT_TRUE(err_has("job job1 has no 'pserver-9'")) << err_.str();
  EXPECT_EQ(run({"logs", "--role", "pserv"}), 2);
}

TEST_F(CommandsTest, LogsComeInOrderOfTimeByTheFirstNodesClock) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  const std::string first = "jobs/job1/node_0/train.log";
  const std::string second = "jobs/job1/node_1/train.log";
  nodes_[0].files[first] = "a1\na2\nlast";
  nodes_[0].times[first] = {{0, 1000}, {3, 3000}};
  nodes_[1].files[second] = "b1\nb2 error\n";
  nodes_[1].times[second] = {{0, 3'602'000}, {3, 3'604'000}};
  nodes_[1].usage.unix_ms = nodes_[0].usage.unix_ms + 3'600'000;  // an hour ahead
  ASSERT_EQ(run({"logs", "--role", "trainer"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "n-0/trainer-0 | a1\nn-1/trainer-1 | b1\nn-0/trainer-0 | a2\nn-0/trainer-0 | last\n"
            "n-1/trainer-1 | b2 error\n");
  ASSERT_EQ(run({"logs", "--role", "trainer", "--grep", "^(a2|b.*(err|x))"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | a2\nn-1/trainer-1 | b2 error\n");
  nodes_[0].usage.unix_ms = 5000;
  nodes_[1].usage.unix_ms = 3'605'000;
  ASSERT_EQ(run({"logs", "--role", "trainer", "--since", "2s"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | a2\nn-0/trainer-0 | last\nn-1/trainer-1 | b2 error\n");
  ASSERT_EQ(run({"logs", "-f", "--since", "1970-01-01T00:00:02Z", "--role", "trainer-0"}), 0);
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | a2\nn-0/trainer-0 | last\n");
  EXPECT_EQ(run({"logs", "--since", "yesterday"}), 2);
  EXPECT_TRUE(err_has("hint: write an age such as 90s, 10m")) << err_.str();
  EXPECT_EQ(run({"logs", "--grep", "("}), 2);
  EXPECT_TRUE(err_has("--grep '(': Unmatched")) << err_.str();
  ASSERT_EQ(run({"logs", "--role", "trainer", "--since", "2s", "--tail", "2"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | last\nn-1/trainer-1 | b2 error\n");
  ASSERT_EQ(run({"logs", "--role", "trainer", "--since", "2s", "-n", "0"}), 0);
  EXPECT_EQ(out_.str(), "");
}

TEST_F(CommandsTest, FollowingEndsWhenNobodyReads) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(run({"logs", "-f"}), 0);
  out_.clear();
}

TEST_F(CommandsTest, FollowingLogsBeginsWithTheLastTwentyLines) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  for (FakeNode& node : nodes_) {
    for (const ProcessStatus& process : node.processes) {
      node.files[process.log].clear();
      if (process.name != "pserver-0") continue;
      for (int i = 0; i < 30; ++i) node.files[process.log] += fmt::format("line {:02}\n", i);
    }
  }
  ASSERT_EQ(run({"logs", "-f", "--role", "pserver-0"}), 0) << err_.str();
  EXPECT_FALSE(out_has("line 09")) << out_.str();
  EXPECT_TRUE(out_has("line 10")) << out_.str();
  ASSERT_EQ(run({"logs", "-f", "--tail", "3", "--role", "pserver-0"}), 0);
  EXPECT_FALSE(out_has("line 26"));
  EXPECT_TRUE(out_has("line 27")) << out_.str();
  ASSERT_EQ(run({"logs", "--role", "pserver-0"}), 0);
  EXPECT_TRUE(out_has("line 00")) << "all of it without -f";
}

}  // namespace
}  // namespace paddle::cli
