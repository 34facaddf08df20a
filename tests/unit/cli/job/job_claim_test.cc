#include "cli/job/job_claim.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class JobClaimTest : public testing::Test {
 protected:
  JobClaimTest() { fake_.context.who = "alice@laptop, pid 12"; }
  // Another one's, on these nodes; it ends when the test's command has waited `pauses` times.
  void let_others_have(JobCommand command, const std::vector<std::size_t>& nodes, int pauses) {
    for (const std::size_t node : nodes)
      fake_.node(node).claims.push_back({this, "j", {command, "bob@desk, pid 7", "trainer-1"}});
    fake_.context.pause = [this, pauses, so_far = 0](Duration) mutable {
      if (++so_far < pauses) return;
      for (auto& node : fake_.nodes)
        std::erase_if(node.claims, [&](const auto& held) { return held.session == this; });
    };
  }
  std::size_t held(std::size_t node) { return fake_.node(node).claims.size(); }
  bool says(const std::string& text) const {
    return fake_.err.str().find(text) != std::string::npos;
  }

  FakeCluster fake_{2};
  ClusterSession session_ = fake_.session();
};

TEST_F(JobClaimTest, AStopWaitsForARestartAndJoinsAStop) {
  const ClaimTerms stop{.command = JobCommand::kStop};
  let_others_have(JobCommand::kRestart, {0, 1}, 3);
  const auto after_restart = claim_job(fake_.context, session_, "j", stop);
  ASSERT_TRUE(after_restart);
  EXPECT_TRUE(after_restart->has_waited && !after_restart->is_joined);
  EXPECT_TRUE(
      says("paddlectl restart of bob@desk, pid 7, restarts j: waiting for its end; paddlectl "
           "stop --now j ends it immediately\n"))
      << fake_.err.str();
  release_claim(session_, "j");
  let_others_have(JobCommand::kStop, {0, 1}, 3);
  const auto after_stop = claim_job(fake_.context, session_, "j", stop);
  ASSERT_TRUE(after_stop);
  EXPECT_TRUE(after_stop->has_waited && after_stop->is_joined);
  EXPECT_TRUE(says("paddlectl stop of bob@desk, pid 7, saves and ends j: waiting for the same end"))
      << fake_.err.str();
  EXPECT_EQ(held(0) + held(1), 2U);
  EXPECT_EQ(fake_.node(1).claims.front().claim.who, "alice@laptop, pid 12");
}

TEST_F(JobClaimTest, WhoeverIsRefusedOnOneNodeHoldsNone) {
  let_others_have(JobCommand::kRestart, {1}, 1000);
  const auto claimed = claim_job(fake_.context, session_, "j", {.command = JobCommand::kResume});
  ASSERT_TRUE(claimed);
  ASSERT_TRUE(claimed->refused_by);
  EXPECT_EQ(held(0), 0U);
  const Error error = refusal(*claimed->refused_by, JobCommand::kResume, "j");
  EXPECT_EQ(error.code, Errc::kUsage);
  EXPECT_EQ(error.message, "paddlectl restart of bob@desk, pid 7, restarts j");
  EXPECT_EQ(error.hint, "follow it: paddlectl attach --job j");
}

TEST_F(JobClaimTest, ARestartOfAnotherProcessWaitsAndOneOfTheSameJoins) {
  for (const char* const process : {"trainer-1", "trainer-0"}) {
    let_others_have(JobCommand::kRestartProcess, {0, 1}, 2);
    const auto claimed = claim_job(fake_.context, session_, "j",
                                   {.command = JobCommand::kRestartProcess, .process = process});
    ASSERT_TRUE(claimed);
    EXPECT_TRUE(claimed->has_waited);
    EXPECT_EQ(claimed->is_joined, std::string(process) == "trainer-1");
    release_claim(session_, "j");
  }
  EXPECT_TRUE(says("paddlectl restart trainer-1 of bob@desk, pid 7, restarts j"))
      << fake_.err.str();
}

TEST_F(JobClaimTest, CtrlCEndsTheWaitAndHoldsNothing) {
  let_others_have(JobCommand::kRestart, {0}, 1000);
  fake_.interrupted = true;
  const auto claimed = claim_job(fake_.context, session_, "j", {.command = JobCommand::kStop});
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().code, Errc::kInterrupted);
  EXPECT_EQ(held(1), 0U);
}

// A disk that is full keeps nobody from ending a job, nor from fetching it.
TEST_F(JobClaimTest, WhatStartsNothingGoesOnWhereANodeHasNoRoom) {
  fake_.node(1).claim_error = Error{Errc::kResource, "write a claim: No space left", ""};
  for (const JobCommand command : all_job_commands()) {
    const auto claimed = claim_job(fake_.context, session_, "j", {.command = command});
    EXPECT_EQ(static_cast<bool>(claimed), !starts_processes(command)) << name_of(command);
    EXPECT_TRUE(!claimed || session_.all_well()) << name_of(command);
    release_claim(session_, "j");
  }
}

}  // namespace
}  // namespace paddle::cli
