#include <fmt/format.h>
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
  Result<JobPlan> claim(std::uint32_t pservers = 1) {
    ClusterSession session = fake_.session();
    const auto placement = place_job(fake_.cluster, 1, pservers);
    return claim_ports(fake_.context, session, fake_.cluster, request_, *placement, workspace_);
  }
  // A job of one pserver and of one trainer that runs the user's own program.
  void use_own_program() { workspace_.command = {"./train"}; }
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

TEST_F(ClaimTest, TheTrainersOfASecondJobGetPortsBehindThoseOfTheFirst) {
  use_own_program();
  const auto first = claim();
  ASSERT_TRUE(first) << first.error().message;
  const auto trainer = first->trainers[0].spec.environment.at("PADDLE_CURRENT_ENDPOINT");
  EXPECT_EQ(trainer, fmt::format("127.0.0.1:{}", block(1))) << "after the block of the pserver";
  EXPECT_EQ(first->trainers[0].spec.environment.at("MASTER_PORT"), std::to_string(block(1) + 1));
  for (const int port : {int{block(1)}, block(1) + 1})
    EXPECT_TRUE(fake_.node(0).own_claims.contains(static_cast<std::uint16_t>(port))) << port;
  // It runs, and its trainer has not opened the port yet.
  fake_.node(0).processes.front().ports = first->trainers[0].spec.ports;
  const auto second = claim();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->pservers[0].port, block(1) + 2);
  EXPECT_EQ(second->trainers[0].spec.environment.at("PADDLE_CURRENT_ENDPOINT"),
            fmt::format("127.0.0.1:{}", block(2) + 2));
  EXPECT_NE(fake_.err.str().find("other is running on these nodes"), std::string::npos);
}

TEST_F(ClaimTest, AJobWithoutPserversHasThePortsOfItsTrainers) {
  use_own_program();
  fake_.node(0).processes.front().ports = {{"127.0.0.1", first_, 3}};
  const auto first_port = [&] { return claim(0)->trainers.at(0).spec.ports.at(0).first; };
  EXPECT_EQ(first_port(), first_ + 4) << "it takes two at a time";
  EXPECT_EQ(fake_.node(0).own_claims.size(), 2U);
  fake_.node(0).taken_ports[static_cast<std::uint16_t>(first_ + 4)] = "pid 99 (nginx)";
  EXPECT_EQ(first_port(), first_ + 6);
}

TEST_F(ClaimTest, AStrangerOnATrainersPortIsNamed) {
  use_own_program();
  fake_.node(0).taken_ports[block(1)] = "pid 99 (nginx)";
  const auto plan = claim();
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            fmt::format("node n-0: port {} on 127.0.0.1 is taken by pid 99 (nginx); nothing was "
                        "started",
                        block(1)));
}

// The built-in trainer only calls others.
TEST_F(ClaimTest, TrainersThatDoNotListenHaveNoPorts) {
  const auto plan = claim();
  ASSERT_TRUE(plan);
  EXPECT_EQ(fake_.node(0).own_claims.size(), fake_.cluster.block());
  EXPECT_TRUE(plan->trainers[0].spec.ports.empty());
}

TEST_F(ClaimTest, ATakenNameGetsANumberUnlessItWasAskedFor) {
  fake_.node(0).starting = {"j", "j-2"};
  ClusterSession session = fake_.session();
  EXPECT_EQ(*claim_new_name(fake_.context, session, "j", false), "j-3");
  EXPECT_EQ(claim_new_name(fake_.context, session, "j", true).error().code, Errc::kUsage);
}

}  // namespace
}  // namespace paddle::cli
