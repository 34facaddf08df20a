#include "cli/job/end_of_job.h"

#include <gtest/gtest.h>

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
    return follow_job(fake_.context, session, "j", summary_);
  }

  FakeCluster fake_{1};
  JobSummary summary_;
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

TEST_F(FollowTest, AStartThatWasBrokenOffIsNotWaitedFor) {
  remote::ProcessStatus& pserver = fake_.node(0).processes.front();
  pserver.name = "pserver-0";
  pserver.state = remote::ProcessState::kRunning;
  pserver.trainers = pserver.pservers = 1;
  fake_.node(0).starting = {"j"};
  int pauses = 0;
  const Status followed = follow([&](remote::ProcessStatus&) {
    if (++pauses == 5) fake_.node(0).starting.clear();
  });
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().code, Errc::kFailed);
  EXPECT_EQ(followed.error().message,
            "the start of j was broken off: trainer-0 was never started; pserver-0 runs");
  EXPECT_EQ(pauses, 6) << "a start that goes on is waited for; then it looks twice";
}

class StopWaitTest : public FollowTest {
 protected:
  StopWaitTest() {
    remote::ProcessStatus& trainer = fake_.node(0).processes.front();
    trainer.state = remote::ProcessState::kRunning;
    trainer.reports = true;
    trainer.progress.emplace();
    trainer.progress->batch = 1;
    trainer.progress->unix_ms = fake_.node(0).usage.unix_ms;
    fake_.node(0).processes.push_back(trainer);
    fake_.node(0).processes.back().name = "trainer-1";
  }
  // Waits for trainers whose reports `on_second` changes; time passes on the node too.
  Status wait(std::function<void(std::int64_t)> on_second) {
    fake_.context.pause = [this, on_second](Duration pause) {
      fake_.clock.time += pause;
      fake_.node(0).usage.unix_ms +=
          std::chrono::duration_cast<std::chrono::milliseconds>(pause).count();
      on_second(fake_.node(0).usage.unix_ms);
    };
    ClusterSession session = fake_.session();
    return wait_for_trainers(fake_.context, session, "j");
  }
  remote::ProcessStatus& trainer(std::size_t number) { return fake_.node(0).processes[number]; }
  std::string err() const { return fake_.err.str(); }
};

TEST_F(StopWaitTest, SaysWhomItWaitsForAndGivesUpWhenNothingMoves) {
  const Status waited = wait([&](std::int64_t now) {
    if (now < 1'010'000) trainer(0).progress->unix_ms = now;
  });
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::kFailed);
  EXPECT_TRUE(
      waited.error().message.starts_with("j was asked to stop 70 s ago and still runs\n"
                                         "trainer-0 on n-0 is stalled: no progress for 1m"))
      << waited.error().message;
  EXPECT_EQ(waited.error().hint, "end it immediately: paddlectl stop --now --job j");
  EXPECT_TRUE(err().starts_with(
      "waiting for trainer-0, trainer-1 to save; paddlectl stop --now ends it immediately\n"
      "waiting for trainer-1, which is stalled; paddlectl stop --now ends it immediately\n"))
      << err();
}

TEST_F(StopWaitTest, ATrainerThatTrainsOrSavesIsWaitedFor) {
  const std::int64_t begun = fake_.node(0).usage.unix_ms;
  const Status waited = wait([&](std::int64_t now) {
    trainer(1).state = remote::ProcessState::kExited;
    if (now - begun < 100'000) {
      trainer(0).progress->unix_ms = now;
    } else {
      trainer(0).progress->activity = remote::Activity::kSaving;
    }
    if (now - begun > 300'000) trainer(0).state = remote::ProcessState::kExited;
  });
  EXPECT_TRUE(waited) << waited.error().message;
  EXPECT_NE(err().find("waiting for trainer-0 to save;"), std::string::npos) << err();
}

}  // namespace
}  // namespace paddle::cli
