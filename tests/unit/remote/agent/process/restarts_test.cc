// Processes that a real agent starts again, and leftovers of the previous run.
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

// Each run prints its number, and kills itself until the number is $2.
constexpr const char* kMortal = "echo run $1 again $3; [ $1 -ge $2 ] || kill -9 $$\n";

TEST_F(AgentTest, OneThatEndedIsStartedAgainWhileItsLeftoversAreBeingEnded) {
  const auto agent = connect_agent();
  push_script(*agent, "parent",
              "(trap '' TERM; echo left; exec sleep 60) & "
              "while ! grep -q left \"$1\"; do :; done; exit 3");
  ProcessSpec spec = script("parent", "p");
  spec.arguments = {"{root}/" + spec.log};
  ASSERT_TRUE(agent->start(spec));
  EXPECT_EQ(wait_end(*agent, "job-1", "p").exit_code, 3);
  ASSERT_TRUE(claim_to_start(*agent, "job-1", true));
  const Status again = agent->restart("job-1", {"p"});
  ASSERT_TRUE(again) << again.error().message;
  const ProcessStatus second = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(second.incarnation, 2U);
  EXPECT_EQ(second.exit_code, 3);
}

class AgentLeftovers : public AgentTest {
 protected:
  // The first run puts a program into the background, which writes its pid to the file `left`, and
  // is killed; the second one ends with 5 if that program still runs.
  void expect_ended(const std::string& program) {
    const auto agent = connect_agent();
    push_script(*agent, "parent",
                "if [ $1 = 2 ]; then kill -0 \"$(cat left)\" && exit 5; exit 0; fi\n" + program +
                    " &\nwhile ! [ -e left ]; do :; done; kill -9 $$\n");
    ProcessSpec spec = script("parent", "p");
    spec.arguments = {"{incarnation}"};
    spec.restarts = 1;
    ASSERT_TRUE(agent->start(spec));
    const ProcessStatus ended = wait_end(*agent, "job-1", "p");
    EXPECT_EQ(ended.incarnation, 2U);
    EXPECT_EQ(ended.exit_code, 0);
  }
};

// As a trainer does with the programs that fetch its data.
TEST_F(AgentLeftovers, InAGroupOfTheirOwnEndBeforeTheNextStart) {
  expect_ended(
      "perl -e 'setpgrp; open F, q(>), q(left.new); print F $$; close F;"
      " rename q(left.new), q(left); exec q(sleep), 1000'");
}

// As a program does that such a program puts into the background with setsid(1).
TEST_F(AgentLeftovers, InASessionOfTheirOwnEndBeforeTheNextStart) {
  expect_ended("setsid sh -c 'echo $$ >left.new; mv left.new left; exec sleep 1000'");
}

TEST_F(AgentTest, AProcessThatFailsIsStartedAgainAsOftenAsItMay) {
  const auto agent = connect_agent();
  push_script(*agent, "mortal", kMortal);
  ProcessSpec spec = script("mortal", "p");
  spec.arguments = {"{incarnation}", "3", "{again}"};
  spec.restarts = 2;
  ASSERT_TRUE(agent->start(spec));
  const ProcessStatus good = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(good.state, ProcessState::kExited);
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.incarnation, 3U);
  const std::string log = wait_log(*agent, spec.log, "run 3 again true\n");
  EXPECT_NE(log.find("run 1 again false\n"), std::string::npos) << log;
  EXPECT_NE(log.find("paddlectl: killed by signal 9; it is started again\n"), std::string::npos);

  // Its lives are counted on when it is started anew; now it may not fail as often as it does.
  spec.arguments[1] = "9";
  ASSERT_TRUE(agent->start(spec));
  const ProcessStatus bad = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(bad.state, ProcessState::kKilled);
  EXPECT_EQ(bad.signal, 9);
  EXPECT_EQ(bad.incarnation, 6U);
  EXPECT_FALSE(agent->restart("job-1", {"p"})) << "it is not claimed";
  ASSERT_TRUE(agent->claim_job({"job-1", {JobCommand::kRestartProcess}}));
  ASSERT_TRUE(agent->restart("job-1", {"p"}));
  EXPECT_EQ(wait_end(*agent, "job-1", "p").incarnation, 9U);
  EXPECT_FALSE(agent->restart("job-1", {"q"}));
}

TEST_F(AgentTest, OneThatRunsWithoutRestartsIsNotRestartedAlone) {
  const auto agent = connect_agent();
  push_script(*agent, "waits", "#!/bin/sh\nexec sleep 100\n");
  ASSERT_TRUE(agent->start(script("waits", "p")));
  ASSERT_TRUE(agent->claim_job({"job-1", {JobCommand::kRestartProcess}}));
  const Status refused = agent->restart("job-1", {"p"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_EQ(refused.error().hint,
            "start jobs with --restarts, or restart the whole job: paddlectl restart job-1");
}

TEST_F(AgentTest, ARestartByHandIsNoFailureOfTheProcess) {
  const auto agent = connect_agent();
  push_script(*agent, "waits", "#!/bin/sh\necho \"run $1\"\nexec sleep 100\n");
  ProcessSpec spec = script("waits", "p");
  spec.arguments = {"{incarnation}"};
  spec.restarts = 1;
  ASSERT_TRUE(agent->start(spec));
  ASSERT_TRUE(agent->claim_job({"job-1", {JobCommand::kRestartProcess}}));
  for (int run = 1; run <= 3; ++run) {
    wait_log(*agent, spec.log, "run " + std::to_string(run) + "\n");
    ASSERT_TRUE(agent->restart("job-1", {"p"}));
  }
  const std::string log = wait_log(*agent, spec.log, "run 4\n");
  EXPECT_NE(log.find("paddlectl: ended by paddlectl restart; it is started again\n"),
            std::string::npos)
      << log;
  const auto statuses = agent->processes("job-1");
  ASSERT_TRUE(statuses);
  const ProcessStatus& status = statuses->front();
  EXPECT_EQ(status.state, ProcessState::kRunning);
  ASSERT_EQ(status.restarts.size(), 3U);
  for (const Restart& restart : status.restarts) {
    EXPECT_TRUE(restart.ordered);
    EXPECT_EQ(restart.failures, 0U);
  }
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
}

TEST_F(AgentTest, AStopEndsThePauseBeforeAnotherLife) {
  const auto agent = connect_agent();
  push_script(*agent, "mortal", kMortal);
  ProcessSpec spec = script("mortal", "p");
  spec.arguments = {"{incarnation}", "999", "{again}"};
  spec.restarts = 1000;
  ASSERT_TRUE(agent->start(spec));
  // The pauses double: in the third there is time.
  wait_log(*agent, spec.log, "run 3 ");
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  const ProcessStatus status = wait_end(*agent, "job-1", "p");
  EXPECT_TRUE(status.stopped);
  EXPECT_LT(status.incarnation, 6U);
}

}  // namespace
}  // namespace paddle::remote
