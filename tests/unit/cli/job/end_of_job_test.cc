#include <gtest/gtest.h>

#include "cli/job/end_of_job.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class FollowTest : public testing::Test {
 protected:
  FollowTest() {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = "trainer-0";
    status.log = "log";
    status.state = remote::ProcessState::kExited;
    status.exit_code = static_cast<int>(Errc::kResumable);
    fake_.node(0).processes = {status};
  }
  Status follow(std::function<void(remote::ProcessStatus&)> on_pause) {
    fake_.context.pause = [this, on_pause](Duration pause) {
      fake_.clock.time += pause;
      on_pause(fake_.node(0).processes.front());
    };
    ClusterSession session = fake_.session();
    return follow_job(fake_.context, session, "j");
  }

  FakeCluster fake_{1};
};

TEST_F(FollowTest, AJobThatStoppedIsResumable) {
  const Status followed = follow([](remote::ProcessStatus&) {});
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().code, Errc::kResumable);
  EXPECT_EQ(followed.error().message, "j stopped before its end");
}

TEST_F(FollowTest, AJobThatIsStartedAgainIsFollowedOn) {
  const Status followed = follow([](remote::ProcessStatus& status) {
    if (status.state == remote::ProcessState::kExited) {
      status.state = remote::ProcessState::kRunning;
    } else {
      status.state = remote::ProcessState::kExited;
      status.exit_code = 0;
    }
  });
  EXPECT_TRUE(followed) << followed.error().message;
}

}  // namespace
}  // namespace paddle::cli
