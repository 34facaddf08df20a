#include "cli/job/start.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class StartTest : public testing::Test {
 protected:
  StartTest() {
    PlannedProcess server;
    server.spec.job = plan_.job = "j";
    server.spec.name = "pserver-0";
    server.spec.log = "log";
    plan_.pservers = {server};
  }
  Status start() {
    ClusterSession session = fake_.session();
    return start_job(fake_.context, session, plan_);
  }

  FakeCluster fake_{1};
  JobPlan plan_;
};

TEST_F(StartTest, ALogLineDoesNotMakeAPserverReady) {
  fake_.node(0).on_start = [](remote::FakeNode& node, remote::ProcessStatus&) {
    node.files["log"] += "READY pserver 0 ports 1-2\n";
  };
  const Status started = start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kUnreachable);
  EXPECT_TRUE(started.error().message.starts_with("pserver-0 on n-0 was not ready in time"));
  EXPECT_FALSE(fake_.node(0).files["jobs/j/key"].empty());
}

TEST_F(StartTest, ItsNoticeDoes) {
  fake_.node(0).on_start = [](remote::FakeNode&, remote::ProcessStatus& status) {
    status.phase = remote::Phase::kReady;
  };
  const Status started = start();
  EXPECT_TRUE(started) << started.error().message;
}

TEST_F(StartTest, AProcessThatEndsBeforeItIsReadyIsTheError) {
  fake_.node(0).on_start = [](remote::FakeNode&, remote::ProcessStatus& status) {
    status.state = remote::ProcessState::kExited;
    status.exit_code = static_cast<int>(Errc::kResource);
  };
  const Status started = start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kResource);
  EXPECT_NE(started.error().message.find("before it was ready"), std::string::npos);
}

}  // namespace
}  // namespace paddle::cli
