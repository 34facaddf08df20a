#include "cli/job/end_of_job.h"

#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/watch/missing_processes.h"
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
            "the start of j was interrupted: trainer-0 was never started; pserver-0 runs");
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
    if (passed < std::chrono::seconds(23)) return;
    pserver().state = remote::ProcessState::kExited;
    pserver().exit_code = static_cast<int>(Errc::kUnreachable);
  });
  EXPECT_TRUE(
      error.message.ends_with("all processes of j have ended on the nodes that answer: pserver-0 "
                              "on n-0 exited with code 4"))
      << error.message;
  EXPECT_EQ(error.hint,
            "once the node answers, paddlectl status --job j shows the state of the rest");
}

TEST_F(SilentNodeTest, WhatRunsOnTheOthersIsTold) {
  const Error error = give_up([](std::chrono::seconds) {});
  EXPECT_TRUE(error.message.ends_with("\n1 process of j still runs on the nodes that answer"))
      << error.message;
}

TEST_F(SilentNodeTest, NothingIsClaimedWhenNoNodeAnswers) {
  const Error error = give_up([&](std::chrono::seconds) { fake_.node(0).unreachable = true; });
  EXPECT_NE(error.message.find("the state of j is unknown"), std::string::npos) << error.message;
  EXPECT_EQ(error.hint,
            "once a node answers, paddlectl status --job j shows its state, paddlectl attach --job "
            "j follows it");
}

TEST_F(SilentNodeTest, ItIsNamedWithWhatRanThereWellBeforeItCounts) {
  Error error = give_up([](std::chrono::seconds) {});
  EXPECT_EQ(fake_.err.str(), "node n-1 does not answer: node n-1: silent\n") << "once";
}

// A long test is no standstill, wherever a node is silent meanwhile.
TEST_F(SilentNodeTest, AJobThatTestsIsNotSaidToStandStill) {
  pserver().reports = true;
  remote::ProcessStatus trainer = pserver();
  trainer.name = "trainer-1";
  trainer.progress.emplace();
  trainer.progress->activity = remote::Activity::kTesting;
  fake_.node(0).processes.push_back(trainer);
  const Error error = give_up([](std::chrono::seconds) {});
  EXPECT_EQ(error.message.find("no progress"), std::string::npos) << error.message;
  EXPECT_NE(error.hint.find("nothing was stopped"), std::string::npos) << error.hint;
}

// Training goes on elsewhere, or stands still without the silent node.
TEST_F(SilentNodeTest, WhetherTheJobGoesOnWithoutItIsTold) {
  for (const bool goes_on : {true, false}) {
    fake_.clock.time = {};
    remote::ProcessStatus trainer;
    trainer.job = "j";
    trainer.name = "trainer-1";
    trainer.state = remote::ProcessState::kRunning;
    trainer.reports = true;
    trainer.progress.emplace();
    trainer.progress->batch = 7;
    trainer.restarts.push_back({4, 0, 990'000, 0});  // it lost a peer
    fake_.node(0).processes = {trainer};
    fake_.context.pause = [&](Duration pause) {
      fake_.clock.time += pause;
      remote::ProcessStatus& status = fake_.node(0).processes.front();
      if (goes_on) ++status.progress->batch;
      // Each incarnation begins behind where the one before was.
      if (!goes_on) status.progress->batch = 7 - status.progress->batch;
    };
    ClusterSession session = fake_.session();
    JobSummary summary;
    const Status followed = follow_job(fake_.context, session, "j", summary);
    ASSERT_FALSE(followed);
    EXPECT_EQ(summary.stands_still, !goes_on);
    EXPECT_EQ(followed.error().message.find("j makes no progress without it") != std::string::npos,
              !goes_on)
        << followed.error().message;
  }
}

// A job of three trainers and two pservers on three of four nodes.
class LostNodeTest : public testing::Test {
 protected:
  LostNodeTest() {
    for (std::size_t node = 0; node < 3; ++node) {
      add(node, fmt::format("trainer-{}", node));
      if (node < 2) add(node, fmt::format("pserver-{}", node));
    }
    fake_.context.connect = [this, connect = fake_.context.connect](const remote::NodeSpec& spec,
                                                                    bool create) {
      if (gone_.contains(spec.name))
        return Result<std::unique_ptr<remote::AgentClient>>(std::unique_ptr<remote::AgentClient>());
      return connect(spec, create);
    };
  }
  void add(std::size_t node, const std::string& name) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.log = "log";
    status.state = remote::ProcessState::kRunning;
    status.reports = true;
    status.trainers = 3;
    status.pservers = 2;
    status.progress.emplace();
    (name.starts_with("trainer") ? status.progress->batch : status.progress->updates) = 5;
    fake_.node(node).processes.push_back(status);
  }
  // With its folder, its processes and its agents.
  void lose(std::size_t node) {
    fake_.node(node).torn_down = true;
    gone_.insert(fmt::format("n-{}", node));
  }
  void end(std::size_t node, int code, const std::string& why) {
    for (remote::ProcessStatus& status : fake_.node(node).processes) {
      status.state = remote::ProcessState::kExited;
      status.exit_code = code;
      status.ended_unix_ms = 50;
      status.failure = Error{static_cast<Errc>(code), why, ""};
    }
  }
  // Follows a job to its end, in which `on_second` is called each second.
  Error follow(const std::function<void(int)>& on_second, std::size_t nodes = 4) {
    fake_.context.pause = [&](Duration pause) {
      const auto before = fake_.clock.time;
      fake_.clock.time += pause;
      const auto seconds = [](TimePoint at) {
        return static_cast<int>(
            std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count());
      };
      for (int at = seconds(before) + 1; at <= seconds(fake_.clock.time); ++at) on_second(at);
    };
    std::vector<std::size_t> members(nodes);
    std::iota(members.begin(), members.end(), 0);
    ClusterSession session = ClusterSession::find(fake_.context, fake_.cluster, members);
    summary_ = JobSummary();
    const Status followed = follow_job(fake_.context, session, "j", summary_);
    return followed ? Error() : followed.error();
  }
  // Each node is a start of its own machine; a node that is started again has another number.
  void number_machines() {
    for (std::size_t node = 0; node < 4; ++node)
      fake_.node(node).identity = {fmt::format("folder-{}", node), "boot:1"};
    fake_.context.machine_of = [](const remote::NodeSpec&) -> Result<std::string> {
      return std::string("boot:2");
    };
  }
  int seconds() const {
    return static_cast<int>(
        std::chrono::duration_cast<std::chrono::seconds>(fake_.clock.time.time_since_epoch())
            .count());
  }

  std::set<std::string> gone_;
  JobSummary summary_;
  FakeCluster fake_{4};
};

constexpr const char* kLostOne =
    "node n-0 is lost: it no longer has a folder of this cluster; pserver-0, trainer-0 of j ran "
    "there";

TEST_F(LostNodeTest, IsTheFirstCauseWhateverTheOthersSay) {
  for (const bool ends : {true, false}) {  // without --restarts, and with them
    fake_.clock.time = {};
    const Error error = follow([&](int second) {
      if (second == 3) lose(0);
      if (second == 4 && ends) end(1, 4, "pserver 0: closed by peer");
      if (second == 4 && ends) end(2, 4, "trainer 0 lost at step 1404");
    });
    EXPECT_EQ(error.code, Errc::kUnreachable);
    EXPECT_EQ(error.message, kLostOne);
    EXPECT_LT(seconds(), 30);
    gone_.clear();
    fake_.node(0).torn_down = false;
    for (const std::size_t node : {1, 2}) {
      for (remote::ProcessStatus& status : fake_.node(node).processes)
        status.state = remote::ProcessState::kRunning;
    }
  }
}

TEST_F(LostNodeTest, IsAlsoOneThatAnswersAndKnowsNothingOfTheJob) {
  const Error error = follow([&](int second) {
    if (second == 3) fake_.node(2).processes.clear();
  });
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_EQ(
      error.message,
      "node n-2 has lost the job: it no longer has a folder of the job; trainer-2 of j ran there");
}

TEST_F(LostNodeTest, IsReplacedIfAnotherMachineHasItsName) {
  number_machines();
  fake_.context.why_lost = [](const remote::NodeSpec& node) {
    return node.name == "n-0" ? "Evicted: The node was low on resource: memory" : "wrong";
  };
  const Error error = follow([&](int second) {
    if (second == 3) lose(0);
    if (second == 4) end(1, 4, "pserver 0: closed by peer");
  });
  EXPECT_EQ(error.code, Errc::kFailed) << "the node answers";
  EXPECT_EQ(error.message,
            "node n-0 was replaced: its folder is gone (another machine, container or pod under "
            "its name): Evicted: The node was low on resource: memory; pserver-0, trainer-0 of j "
            "ran there");
  EXPECT_EQ(summary_.returned_nodes, std::vector<std::string>{"n-0"});
}

TEST_F(LostNodeTest, IsReplacedThoughItsFolderWasMadeAgain) {
  number_machines();
  const Error error = follow([&](int second) {
    if (second != 3) return;
    fake_.node(0).processes.clear();
    fake_.node(0).identity = {"folder-9", "boot:2"};
  });
  EXPECT_TRUE(error.message.starts_with("node n-0 was replaced: its folder is new ("))
      << error.message;
  EXPECT_EQ(summary_.returned_nodes, std::vector<std::string>{"n-0"});
}

// Somebody has removed the folder on the machine that it was on: nothing brings it back.
TEST_F(LostNodeTest, IsNotReplacedOnTheSameMachine) {
  number_machines();
  const Error error = follow([&](int second) {
    if (second != 3) return;
    fake_.node(0).processes.clear();
    fake_.node(0).identity.folder = "folder-9";
  });
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_TRUE(error.message.starts_with(
      "node n-0 has lost the job: its folder was removed and made again; pserver-0, trainer-0"))
      << error.message;
  EXPECT_TRUE(summary_.returned_nodes.empty());
}

TEST_F(LostNodeTest, WasRestartedIfItsProcessesAreOfAnEarlierStart) {
  number_machines();
  const Error error = follow([&](int second) {
    if (second != 3) return;
    fake_.node(0).identity.machine = "boot:2";
    for (remote::ProcessStatus& status : fake_.node(0).processes)
      status.state = remote::ProcessState::kLost;
    end(1, 4, "pserver 0: closed by peer");
  });
  EXPECT_EQ(error.code, Errc::kFailed);
  EXPECT_TRUE(error.message.starts_with(
      "node n-0 was restarted (another start of its machine, container or pod)\n"))
      << error.message;
  EXPECT_EQ(summary_.returned_nodes, std::vector<std::string>{"n-0"});
}

// `attach` has never seen the node before its restart.
TEST_F(LostNodeTest, WasRestartedAsItsRecordOnOtherNodesTells) {
  number_machines();
  fake_.node(1).files["jobs/j/nodes.jsonl"] =
      encode(std::vector<RecordedNode>{{1, "n-0", {"folder-0", "boot:1"}, {"trainer-0"}}});
  fake_.node(0).identity.machine = "boot:2";
  for (remote::ProcessStatus& status : fake_.node(0).processes)
    status.state = remote::ProcessState::kLost;
  const Error error = follow([](int) {});
  EXPECT_TRUE(error.message.starts_with("node n-0 was restarted")) << error.message;
  EXPECT_EQ(summary_.returned_nodes, std::vector<std::string>{"n-0"});
}

// `train` starts the job again, and this command follows the new start on the node.
TEST_F(LostNodeTest, IsFollowedAgainWhenAnotherCommandHasPreparedIt) {
  number_machines();
  const auto processes = fake_.node(0).processes;
  const Error error = follow([&](int second) {
    if (second == 3) {
      for (std::size_t node = 1; node < 3; ++node) fake_.node(node).starting.insert("j");
      lose(0);
    }
    if (second == 8) {
      fake_.node(0).torn_down = false;
      gone_.clear();
      fake_.node(0).identity = {"folder-9", "boot:2"};
      fake_.node(0).processes = processes;
      for (std::size_t node = 1; node < 3; ++node) fake_.node(node).starting.clear();
    }
    if (second == 40) end(2, 6, "data/train.txt:7: no number");
  });
  EXPECT_EQ(error.code, Errc::kData) << error.message;
}

TEST_F(LostNodeTest, IsNotBlamedForWhatAProcessDidItself) {
  const Error error = follow([&](int second) {
    if (second == 3) lose(0);
    if (second == 3) end(2, 6, "data/train.txt:7: no number");
  });
  EXPECT_EQ(error.code, Errc::kData);
  EXPECT_TRUE(error.message.starts_with("trainer-2 on n-2 exited with code 6")) << error.message;
}

TEST_F(LostNodeTest, IsNoneWhileATeardownGoesFromNodeToNode) {
  const Error error = follow([&](int second) {
    if (second >= 3 && second < 7) lose(static_cast<std::size_t>(second - 3));
    for (std::size_t node = 0; second == 3 && node < 3; ++node) end(node, 130, "asked to end");
  });
  EXPECT_EQ(error.code, Errc::kInterrupted);
  EXPECT_EQ(error.message,
            "job 'j' is no longer on its nodes: they have no folder of this cluster, as after "
            "paddlectl teardown at another terminal");
}

TEST_F(LostNodeTest, AreAllOfTheJobsNodesWhereAnotherIsThereStill) {
  const Error error = follow([&](int second) {
    for (std::size_t node = 0; second == 3 && node < 3; ++node) lose(node);
  });
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_NE(error.message.find("node n-2 is lost"), std::string::npos) << error.message;
}

TEST_F(LostNodeTest, RecordsThatComeBackAreNoLoss) {
  const auto processes = fake_.node(1).processes;
  const Error error = follow([&](int second) {
    if (second == 3) fake_.node(1).processes.clear();
    if (second == 5) fake_.node(1).processes = processes;
    if (second == 20) end(2, 6, "data/train.txt:7: no number");
  });
  EXPECT_EQ(error.code, Errc::kData) << error.message;
}

TEST_F(LostNodeTest, AJobThatWasRemovedIsNotLost) {
  const Error error = follow([&](int second) {
    for (std::size_t node = 0; second == 3 && node < 3; ++node) fake_.node(node).processes.clear();
  });
  EXPECT_EQ(error.code, Errc::kInterrupted);
  EXPECT_EQ(error.message,
            "job 'j' is no longer on its nodes, as after paddlectl rm at another terminal");
}

// As attach does it, which never saw the node.
TEST_F(LostNodeTest, ThatWasNeverSeenCountsOnceTheJobStandsStill) {
  lose(0);
  fake_.node(1).processes.back().progress->missed_ms = {{0, 4000}};
  const Error error = follow([](int) {});
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_EQ(error.message,
            "j is incomplete: no node has pserver-0, trainer-0\n"
            "node n-0: it has no folder of this cluster");
  EXPECT_NE(fake_.err.str().find("j is incomplete"), std::string::npos);
  EXPECT_LT(seconds(), 30);
}

// One that was taken out of the cluster file: its processes go on.
TEST_F(LostNodeTest, IsNoneThatIsNotInTheFile) {
  fake_.cluster.nodes.resize(2);
  const Error error = follow(
      [&](int second) {
        if (second == 60) end(0, 6, "data/train.txt:7: no number");
      },
      2);
  EXPECT_EQ(error.code, Errc::kData) << error.message;
  EXPECT_NE(fake_.err.str().find("j is incomplete: no node has trainer-2\n"), std::string::npos)
      << fake_.err.str();
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
      "waiting for trainer-0, trainer-1 to save; paddlectl stop --now j ends it immediately\n"
      "waiting for trainer-1, which is stalled; paddlectl stop --now j ends it immediately\n"))
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
  EXPECT_EQ(followed.error().message,
            "j was stopped by another terminal before trainer-0 had begun");
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
