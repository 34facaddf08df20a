#include "cli/watch/log_follow.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class LogFollowTest : public testing::Test {
 protected:
  LogFollowTest() {
    for (std::size_t i = 0; i < 2; ++i) {
      remote::ProcessStatus status;
      status.job = "j";
      status.name = "trainer-" + std::to_string(i);
      status.log = "log";
      status.state = remote::ProcessState::kExited;
      fake.node(i).processes = {status};
      fake.node(i).usage.unix_ms = 1'000'000;
    }
  }
  std::string all_lines(LogFollowOptions options) {
    if (!options.wanted)
      options.wanted = [](const ProcessOnNode&, const std::string&) { return true; };
    ClusterSession session = fake.session();
    LogFollow follow(fake.context, session, "j", std::move(options));
    std::string seen;
    for (int turn = 0; turn < 100; ++turn) {
      EXPECT_TRUE(follow.read(false));
      while (const auto line = follow.next()) {
        seen += follow.source(line->source).role.substr(8) + ":" + line->line.text + " ";
      }
      if (follow.all_read()) return seen;
    }
    ADD_FAILURE() << "never read to the end: " << seen;
    return seen;
  }
  void log_of(std::size_t node, const std::string& text, std::vector<remote::LogTime> times) {
    fake.node(node).files["log"] = text;
    fake.node(node).times["log"] = std::move(times);
  }

  FakeCluster fake{2};
};

TEST_F(LogFollowTest, LinesComeInTheOrderOfTheirTimesWithTheUnfinishedLastLine) {
  log_of(0, "a\nc\n", {{0, 1000}, {2, 3000}});
  log_of(1, "b\nd", {{0, 2000}, {2, 4000}});
  EXPECT_EQ(all_lines({}), "0:a 1:b 0:c 1:d ");
}

TEST_F(LogFollowTest, ALogThatGrowsFasterThanItIsReadEndsWhereItWasToldToEnd) {
  log_of(0, "a\n", {});
  fake.node(0).on_read_file = [](remote::FakeNode& node) {
    node.files["log"] += std::string(2 * kLogChunkBytes, 'x') + "\n";
  };
  EXPECT_EQ(all_lines({}).substr(0, 4), "0:a ");
  LogReader reader("log");
  remote::FakeAgentClient client({}, fake.node(0));
  EXPECT_TRUE(read_metrics(client, "log", 1000).empty()) << "and it does end";
}

TEST_F(LogFollowTest, AClockThatIsProvablyWrongIsCorrected) {
  fake.node(1).usage.unix_ms += 60'000;
  log_of(0, "a\nc\n", {{0, 1000}, {2, 3000}});
  log_of(1, "b\nd\n", {{0, 62'000}, {2, 64'000}});
  EXPECT_EQ(all_lines({}), "0:a 1:b 0:c 1:d ");
}

TEST_F(LogFollowTest, OnlyWantedLogsAreRead) {
  log_of(0, "a\n", {{0, 1000}});
  log_of(1, "b\n", {{0, 2000}});
  LogFollowOptions options;
  options.wanted = [](const ProcessOnNode&, const std::string& node) { return node == "n-1"; };
  EXPECT_EQ(all_lines(options), "1:b ");
}

TEST_F(LogFollowTest, TailAndSinceLeaveOutEarlierLines) {
  log_of(0, "a\nb\nc\n", {{0, 1000}, {2, 3000}, {4, 995'000}});
  log_of(1, "", {});
  LogFollowOptions tail;
  tail.tail = 2;
  EXPECT_EQ(all_lines(tail), "0:b 0:c ");
  LogFollowOptions since;
  since.since = "10s";
  EXPECT_EQ(all_lines(since), "0:c ");
}

TEST_F(LogFollowTest, TheTailOfAPartOfALogIsItsLastLines) {
  std::string text;
  std::vector<remote::LogTime> times;
  for (int i = 0; i < 100'000; ++i) {
    if (i % 1000 == 0) times.push_back({text.size(), 900'000 + i});
    text += std::to_string(i) + "\n";
  }
  log_of(0, text, times);
  log_of(1, "", {});
  LogFollowOptions both;
  both.since = "50s";  // from line 50000 on, of several chunks
  both.tail = 2;
  EXPECT_EQ(all_lines(both), "0:99998 0:99999 ");
  both.tail = 100'000;
  EXPECT_EQ(all_lines(both).substr(0, 8), "0:50000 ");
}

TEST_F(LogFollowTest, AProgressBarThatRunsIsShownByItsNewestState) {
  fake.node(0).processes[0].state = remote::ProcessState::kRunning;
  log_of(0, "a\n\r10%\r20%", {{0, 1000}, {3, 2000}});
  log_of(1, "", {});
  EXPECT_EQ(all_lines({}), "0:a 0:20% ") << "with what comes so far";
  LogFollowOptions options;
  options.wanted = [](const ProcessOnNode&, const std::string& node) { return node == "n-0"; };
  ClusterSession session = fake.session();
  LogFollow follow(fake.context, session, "j", options);
  const auto turn = [&](std::int64_t seconds) {
    fake.clock.time += std::chrono::seconds(seconds);
    fake.node(0).usage.unix_ms += 1000 * seconds;
    std::string seen;
    EXPECT_TRUE(follow.read(true));
    while (const auto line = follow.next()) seen += line->line.text + " ";
    return seen;
  };
  EXPECT_EQ(turn(1), "a 20% ");
  EXPECT_EQ(turn(10), "") << "the same state";
  fake.node(0).files["log"] += "\r30%";
  EXPECT_EQ(turn(10), "30% ");
  fake.node(0).files["log"] += "\r40%";
  EXPECT_EQ(turn(1), "") << "too early";
  EXPECT_EQ(turn(10), "40% ");
  fake.node(0).files["log"] += "\n\rz\r100%\nlast";
  EXPECT_EQ(turn(1), "100% ") << "what was shown is not shown again";
  fake.node(0).processes[0].state = remote::ProcessState::kExited;
  EXPECT_EQ(turn(1), "last ");
}

TEST_F(LogFollowTest, TheTailIsThatOfAllLogsTogether) {
  log_of(0, "a\nb\nc\n", {{0, 1000}, {2, 2000}, {4, 5000}});
  log_of(1, "x\ny\nz", {{0, 500}, {2, 3000}, {4, 4000}});
  LogFollowOptions tail;
  tail.tail = 3;
  EXPECT_EQ(all_lines(tail), "1:y 1:z 0:c ");
  tail.tail = 0;
  EXPECT_EQ(all_lines(tail), "");
  tail.tail = 100;
  EXPECT_EQ(all_lines(tail), "1:x 0:a 0:b 1:y 1:z 0:c ");
}

TEST_F(LogFollowTest, AnotherFileMayHaveItsTimesInItsLines) {
  fake.node(0).files["other"] = "5\n";
  fake.node(1).files["other"] = "3\n7\n";
  LogFollowOptions options;
  options.path = [](const remote::ProcessStatus&) { return std::string("other"); };
  options.time_of = [](const std::string& line) { return std::int64_t{std::stoi(line)}; };
  EXPECT_EQ(all_lines(options), "1:3 0:5 1:7 ");
}

TEST_F(LogFollowTest, AMissingLogHoldsNobodyUp) {
  log_of(0, "a\n", {{0, 1000}});
  EXPECT_EQ(all_lines({}), "0:a ");
}

}  // namespace
}  // namespace paddle::cli
