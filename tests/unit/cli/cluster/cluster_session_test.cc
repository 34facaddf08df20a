#include "cli/cluster/cluster_session.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

using remote::ProcessState;

// Node 0 was lost with its processes; the job was started again on nodes 1 and 2, and node 0 is
// back.
class FormerRun : public testing::Test {
 protected:
  remote::ProcessStatus& add(std::size_t node, const std::string& name, std::uint32_t trainers,
                             std::uint64_t run, ProcessState state) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.trainers = status.pservers = trainers;
    status.run = run;
    status.started_unix_ms = static_cast<std::int64_t>(++started_);
    status.state = state;
    return fake_.node(node).processes.emplace_back(std::move(status));
  }
  // "trainer-0 on 1, ..."
  std::string seen() {
    ClusterSession session = fake_.session();
    std::string text;
    for (const auto& [member, status] : session.processes("j"))
      text += status.name + " on " + std::to_string(member) + ", ";
    EXPECT_EQ(session.look(fake_.clock, "j").processes.size(),
              static_cast<std::size_t>(std::ranges::count(text, ',')));
    return text;
  }

  FakeCluster fake_{3};
  int started_ = 0;
};

TEST_F(FormerRun, ProcessesThatWereStartedElsewhereSinceAreLeftOut) {
  add(0, "trainer-0", 2, 100, ProcessState::kLost);
  add(1, "trainer-0", 2, 200, ProcessState::kExited);
  add(2, "trainer-1", 2, 200, ProcessState::kExited);
  EXPECT_EQ(seen(), "trainer-0 on 1, trainer-1 on 2, ");
}

TEST_F(FormerRun, ProcessesThatTheJobHasNoMoreAreLeftOut) {
  add(0, "trainer-2", 3, 100, ProcessState::kKilled);
  add(1, "trainer-0", 2, 200, ProcessState::kRunning);
  add(2, "trainer-1", 2, 200, ProcessState::kRunning);
  EXPECT_EQ(seen(), "trainer-0 on 1, trainer-1 on 2, ");
}

TEST_F(FormerRun, ThoseThatWereAskedToStopAreLeftOutToo) {
  add(0, "pserver-0", 2, 100, ProcessState::kExited).stopped = true;
  add(1, "pserver-0", 2, 200, ProcessState::kRunning);
  EXPECT_EQ(seen(), "pserver-0 on 1, ");
}

// A node could else take the place of another one by a greater number.
TEST_F(FormerRun, WhatRunsOrEndedWellGivesWayToNothing) {
  for (const ProcessState state : {ProcessState::kRunning, ProcessState::kExited}) {
    for (const std::size_t node : {0U, 1U, 2U}) fake_.node(node).processes.clear();
    add(0, "trainer-0", 1, 100, state);
    add(1, "trainer-0", 1, 200, ProcessState::kRunning);
    EXPECT_EQ(seen(), "trainer-0 on 0, trainer-0 on 1, ");
  }
}

TEST_F(FormerRun, AProcessThatIsStartedAgainInItsPlaceMakesNoOtherRun) {
  add(2, "pserver-0", 2, 100, ProcessState::kLost);
  add(1, "trainer-1", 2, 100, ProcessState::kKilled);
  add(0, "trainer-0", 2, 100, ProcessState::kRunning).started_unix_ms = 300;
  EXPECT_EQ(seen(), "pserver-0 on 2, trainer-1 on 1, trainer-0 on 0, ");
}

TEST_F(FormerRun, ANodeWhoseClockIsWrongIsNotTakenForOneOfTheNewestRun) {
  add(0, "trainer-0", 2, 100, ProcessState::kLost).started_unix_ms = 9'000;
  add(1, "trainer-0", 2, 200, ProcessState::kExited);
  EXPECT_EQ(seen(), "trainer-0 on 1, ");
}

// Each of two nodes was alone in its run.
TEST_F(FormerRun, ProcessesOfOtherNamesAreOfARunBeforeToo) {
  add(0, "trainer-1", 2, 100, ProcessState::kKilled);
  add(1, "trainer-0", 2, 200, ProcessState::kKilled);
  EXPECT_EQ(seen(), "trainer-0 on 1, ");
}

}  // namespace
}  // namespace paddle::cli
