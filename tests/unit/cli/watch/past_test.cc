#include <gtest/gtest.h>

#include "cli/watch/feed.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class Past : public testing::Test {
 protected:
  Past() {
    for (const char* const name : {"pserver-0", "trainer-0", "trainer-1"}) {
      remote::ProcessStatus status;
      status.job = "j";
      status.name = name;
      status.log = std::string("jobs/j/node_0/") + name + ".log";
      status.state = remote::ProcessState::kRunning;
      status.restarts_allowed = 9;
      fake_.node(0).processes.push_back(status);
    }
  }
  std::string told() {
    fake_.err.str("");
    tell_past(fake_.context, session_, "j");
    return fake_.err.str();
  }

  FakeCluster fake_{1};
  ClusterSession session_ = fake_.session();
};

TEST_F(Past, OfAJobThatHasJustBegunThereIsNone) {
  EXPECT_EQ(told(), "");
}

TEST_F(Past, TellsTheLastRestartsByTheirAgeAndTheEndOfTheLog) {
  fake_.node(0).processes[0].restarts = {{0, 9, 940'000, 1}};
  for (std::uint32_t i = 1; i <= 5; ++i)
    fake_.node(0).processes[2].restarts.push_back({0, 11, 900'000 + 10'000 * i, i});
  fake_.node(0).processes[1].restarts = {{4, 0, 990'000, 0}};
  std::string& log = fake_.node(0).files["jobs/j/node_0/trainer-0.log"];
  for (int i = 0; i < 8; ++i) log += "line " + std::to_string(i) + "\n";
  log += "W0317 17:26:12.388079 trainer-0] \x1b[2Jsaving pass-00003: No space left\n";
  EXPECT_EQ(
      told(),
      "1 earlier restart not shown\n"
      "1m20s ago: trainer-1 on n-0 was killed by signal 11 (Segmentation fault); restarted (2 "
      "of 9)\n"
      "1m10s ago: trainer-1 on n-0 was killed by signal 11 (Segmentation fault); restarted (3 "
      "of 9)\n"
      "1m00s ago: pserver-0 on n-0 was killed by signal 9 (Killed); restarted (1 of 9)\n"
      "1m00s ago: trainer-1 on n-0 was killed by signal 11 (Segmentation fault); restarted (4 "
      "of 9)\n"
      "50s ago: trainer-1 on n-0 was killed by signal 11 (Segmentation fault); restarted (5 "
      "of 9)\n"
      "n-0/trainer-0 | line 4\n"
      "n-0/trainer-0 | line 5\n"
      "n-0/trainer-0 | line 6\n"
      "n-0/trainer-0 | line 7\n"
      "n-0/trainer-0 | 17:26:12 warning: \\x1b[2Jsaving pass-00003: No space left\n");
}

TEST_F(Past, OfAnEndedJobTheResultsTell) {
  fake_.node(0).processes[2].restarts = {{0, 9, 940'000, 1}};
  for (auto& process : fake_.node(0).processes) process.state = remote::ProcessState::kExited;
  EXPECT_EQ(told(), "");
}

TEST_F(Past, TellsARestartByHandAsOne) {
  remote::Restart by_hand{0, 15, 970'000, 0};
  by_hand.ordered = true;
  fake_.node(0).processes[1].restarts = {{0, 9, 940'000, 1}, by_hand};
  EXPECT_EQ(told(),
            "1m00s ago: trainer-0 on n-0 was killed by signal 9 (Killed); restarted (1 of 9)\n"
            "30s ago: trainer-0 on n-0 was started again by paddlectl restart\n");
}

}  // namespace
}  // namespace paddle::cli
