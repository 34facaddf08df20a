#include <gtest/gtest.h>

#include "cli/job/start.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class ClaimTest : public testing::Test {
 protected:
  ClaimTest() {
    first_ = fake_.cluster.nodes[0].port;
    request_.job = "j";
    workspace_.path = "/w";
    workspace_.trainer_data = {{}};
    remote::ProcessStatus other;
    other.job = "other";
    other.pid = 12;
    other.state = remote::ProcessState::kRunning;
    fake_.node(0).processes = {other};
  }
  Result<JobPlan> claim() {
    ClusterSession session = fake_.session();
    const auto placement = place_job(fake_.cluster, 1, 1);
    return claim_ports(fake_.context, session, fake_.cluster, request_, *placement, workspace_);
  }
  std::uint16_t block(int number) const {
    return static_cast<std::uint16_t>(first_ + number * fake_.cluster.block());
  }

  FakeCluster fake_{1};
  JobRequest request_;
  Workspace workspace_;
  std::uint16_t first_ = 0;
};

TEST_F(ClaimTest, BehindAJobOfOursAStrangersPortsArePassedOver) {
  fake_.node(0).taken_ports[block(0)] = "pid 12 (paddle)";
  fake_.node(0).taken_ports[block(1)] = "pid 99 (paddle)";
  const auto plan = claim();
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->pservers.front().port, block(2));
  EXPECT_NE(fake_.err.str().find("other is running on these nodes"), std::string::npos)
      << fake_.err.str();
}

TEST_F(ClaimTest, AStrangerOnTheFirstPortIsAnError) {
  fake_.node(0).taken_ports[block(0)] = "pid 99 (nginx)";
  const auto plan = claim();
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Errc::kResource);
  EXPECT_NE(plan.error().message.find("by pid 99 (nginx); nothing was started"), std::string::npos);
}

TEST_F(ClaimTest, ATakenNameGetsANumberUnlessItWasAskedFor) {
  fake_.node(0).starting = {"j", "j-2"};
  ClusterSession session = fake_.session();
  EXPECT_EQ(*claim_new_name(session, "j", false), "j-3");
  EXPECT_EQ(claim_new_name(session, "j", true).error().code, Errc::kUsage);
}

}  // namespace
}  // namespace paddle::cli
