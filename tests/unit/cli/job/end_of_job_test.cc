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

class SilentNodeTest : public testing::Test {
 protected:
  SilentNodeTest() {
    for (std::size_t node : {0, 1}) {
      remote::ProcessStatus status;
      status.job = "j";
      status.name = node == 0 ? "pserver-0" : "trainer-0";
      status.state = remote::ProcessState::kRunning;
      fake_.node(node).processes = {status};
    }
    fake_.context.connect = [connect = fake_.context.connect](const remote::NodeSpec& spec,
                                                              bool create) {
      if (spec.name == "n-1") return Result<std::unique_ptr<remote::AgentClient>>(silent());
      return connect(spec, create);
    };
  }
  static Error silent() { return {Errc::kUnreachable, "node n-1: silent", ""}; }
  // Follows until it gives up; `on_pause` is told the seconds that have passed.
  Error give_up(const std::function<void(std::chrono::seconds)>& on_pause) {
    fake_.context.pause = [&](Duration pause) {
      fake_.clock.time += pause;
      on_pause(
          std::chrono::duration_cast<std::chrono::seconds>(fake_.clock.time.time_since_epoch()));
    };
    ClusterSession session = fake_.session();
    JobSummary summary;
    const Status followed = follow_job(fake_.context, session, "j", summary);
    EXPECT_FALSE(followed);
    EXPECT_EQ(followed.error().code, Errc::kUnreachable);
    EXPECT_NE(followed.error().message.find("node n-1: silent\n"), std::string::npos);
    return followed.error();
  }
  remote::ProcessStatus& pserver() { return fake_.node(0).processes.front(); }

  FakeCluster fake_{2};
};

TEST_F(SilentNodeTest, ProcessesThatNoticeItJustAfterwardsAreToldToHaveEnded) {
  const Error error = give_up([&](std::chrono::seconds passed) {
    if (passed < std::chrono::seconds(31)) return;
    pserver().state = remote::ProcessState::kExited;
    pserver().exit_code = static_cast<int>(Errc::kUnreachable);
  });
  EXPECT_TRUE(
      error.message.ends_with("all of j has ended on the nodes that answer: pserver-0 on "
                              "n-0 exited with code 4"))
      << error.message;
  EXPECT_EQ(error.hint,
            "once the node answers, paddlectl status --job j shows what became of the rest");
}

TEST_F(SilentNodeTest, WhatRunsOnTheOthersIsTold) {
  const Error error = give_up([](std::chrono::seconds) {});
  EXPECT_TRUE(error.message.ends_with("\n1 process of j still runs on the nodes that answer"))
      << error.message;
}

TEST_F(SilentNodeTest, NothingIsClaimedWhenNoNodeAnswers) {
  const Error error = give_up([&](std::chrono::seconds) { fake_.node(0).unreachable = true; });
  EXPECT_NE(error.message.find("nothing is known of j"), std::string::npos) << error.message;
  EXPECT_EQ(error.hint,
            "once a node answers, paddlectl status --job j shows what became of it, paddlectl "
            "attach --job j follows it");
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

TEST_F(StopWaitTest, ATrainerThatWaitsForOneThatWasStoppedBeforeItBeganIsNotWaitedFor) {
  trainer(0).progress->awaited = {"trainer-1"};
  trainer(0).progress->unix_ms -= 4000;
  trainer(1).progress.reset();
  trainer(1).state = remote::ProcessState::kKilled;
  trainer(1).stopped = true;
  const Status waited = wait([](std::int64_t) {});
  EXPECT_TRUE(waited) << waited.error().message;
  EXPECT_EQ(fake_.clock.time, TimePoint());
  const Status followed = follow([](remote::ProcessStatus&) {});
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().code, Errc::kInterrupted);
  EXPECT_EQ(followed.error().message, "j was stopped before all its trainers had begun");
}

TEST_F(StopWaitTest, AJobWhoseTrainersWereStoppedBeforeTheyBeganIsNoOthersDoing) {
  for (const std::size_t number : {0, 1}) {
    trainer(number).progress.reset();
    trainer(number).state = remote::ProcessState::kKilled;
    trainer(number).signal = 15;
    trainer(number).stopped = true;
  }
  ClusterSession session = fake_.session();
  fake_.context.take_interrupt = [] {};
  const Status stopped = follow_to_stop(fake_.context, session, "j", summary_);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Errc::kInterrupted);
  EXPECT_EQ(stopped.error().message, "j was stopped before all its trainers had begun");
  const Status followed = follow([](remote::ProcessStatus&) {});
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().message, "j was stopped by paddlectl stop --now at another terminal");
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
