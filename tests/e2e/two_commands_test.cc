// Two commands on one job at the same time, as real processes: the order of each pair is in
// docs/nodes.md.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr int kResumable = 75;

class TwoCommands : public testing::Test {
 protected:
  void SetUp() override {
    cluster.copy_template("quick_start");
    const Outcome prepared = cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400));
    ASSERT_EQ(prepared.code, 0) << prepared.output;
    const Outcome up = cluster.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }
  void TearDown() override {
    if (is_torn_down_) return;
    const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(down.code, 0) << down.output;
    EXPECT_TRUE(cluster.nothing_left());
  }
  // Followed by whoever has the process.
  Process train(const std::string& job, int passes) {
    return cluster.start({"train", "--trainers", "2", "--pservers", "1", "--restarts", "3",
                          "--name", job, "--set", fmt::format("train.passes={}", passes),
                          "quick_start"});
  }
  bool is_saved_within_a_pass(const std::string& job) const {
    for (const auto& entry : fs::directory_iterator(cluster.folder() / ("output/" + job))) {
      const std::string name = entry.path().filename();
      if (name.starts_with("pass-") && std::ranges::count(name, '-') == 2 &&
          fs::exists(entry.path() / "MANIFEST")) {
        return true;
      }
    }
    return false;
  }
  bool runs() const {
    return cluster.find_engine("--trainer_id=0") + cluster.find_engine("--trainer_id=1") +
               cluster.find_engine("--pserver_id=0") >
           0;
  }

  LocalCluster cluster{2};
  bool is_torn_down_ = false;
};

TEST_F(TwoCommands, StopsBesideStopsAndCtrlCSaveOnce) {
  for (const bool with_ctrl_c : {false, true}) {
    const std::string job = with_ctrl_c ? "interrupted" : "stopped";
    Process follower = train(job, 1'000'000);
    ASSERT_TRUE(follower.prints("held-out cost ")) << follower.output();
    if (with_ctrl_c) follower.signal(SIGINT);
    std::vector<Process> stops;
    for (int i = 0; i < 3; ++i) stops.push_back(cluster.start({"stop", "--job", job}));
    for (Process& stop : stops) EXPECT_EQ(stop.wait(), 0) << stop.output();
    EXPECT_EQ(follower.wait(), kResumable) << follower.output();
    EXPECT_EQ(follower.output().find("--now"), std::string::npos) << follower.output();
    EXPECT_TRUE(is_saved_within_a_pass(job)) << follower.output();
    EXPECT_FALSE(runs());
  }
}

TEST_F(TwoCommands, AStopBesideARestartEndsTheJob) {
  for (const char* const phase : {"waiting for trainer-", "pserver ready"}) {
    const std::string job = phase[0] == 'w' ? "saving" : "starting";
    Process follower = train(job, 1'000'000);
    ASSERT_TRUE(follower.prints("held-out cost ")) << follower.output();
    Process restart = cluster.start({"restart", "--job", job});
    ASSERT_TRUE(restart.prints(phase)) << restart.output();
    Process stop = cluster.start({"stop", "--job", job});
    EXPECT_EQ(stop.wait(), 0) << stop.output();
    EXPECT_FALSE(runs()) << "it says that the job is stopped: " << stop.output();
    EXPECT_TRUE(restart.wait().has_value()) << restart.output();
    EXPECT_EQ(follower.wait(), kResumable) << follower.output();
    EXPECT_FALSE(runs()) << restart.output();
  }
}

TEST_F(TwoCommands, AResumeOfAJobThatRunsIsRefusedAndChangesNothing) {
  Process follower = train("job", 1'000'000);
  ASSERT_TRUE(follower.prints("held-out cost ")) << follower.output();
  const int trainer = cluster.find_engine("--trainer_id=0");
  const Outcome resumed = cluster.run({"train", "--resume", "--name", "job", "quick_start"});
  EXPECT_EQ(resumed.code, 2) << resumed.output;
  EXPECT_TRUE(resumed.says("error: job job still runs\n")) << resumed.output;
  EXPECT_EQ(cluster.find_engine("--trainer_id=0"), trainer);
  EXPECT_EQ(cluster.run({"stop", "job"}).code, 0);
  EXPECT_EQ(follower.wait(), kResumable) << follower.output();
}

TEST_F(TwoCommands, FetchesAndAttachesBesideTheEndOfATrainingBringTheSame) {
  Process follower = train("job", 6);
  ASSERT_TRUE(follower.prints("held-out cost ")) << follower.output();
  std::vector<Process> others;
  for (int i = 0; i < 2; ++i) others.push_back(cluster.start({"attach", "--job", "job"}));
  EXPECT_EQ(follower.wait(), 0) << follower.output();
  for (Process& other : others) EXPECT_EQ(other.wait(), 0) << other.output();
  others.clear();
  for (int i = 0; i < 4; ++i)
    others.push_back(cluster.start({"fetch", "--job", "job", "--pass", "all", "--output", "o"}));
  for (Process& other : others) EXPECT_EQ(other.wait(), 0) << other.output();
  for (const char* const folder : {"output/job", "o/job"}) {
    Process verify({PADDLE_PROGRAM, "verify", cluster.folder() / folder},
                   cluster.folder() / "verified");
    EXPECT_EQ(verify.wait(), 0) << verify.output();
    for (const auto& entry : fs::recursive_directory_iterator(cluster.folder() / folder))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
  Process fetch = cluster.start({"fetch", "--job", "job", "--pass", "all", "--output", "p"});
  const Outcome rm = cluster.run({"rm", "job", "--yes", "--discard"});
  EXPECT_EQ(rm.code, 0) << rm.output;
  const int fetched = fetch.wait().value_or(-1);
  EXPECT_TRUE(fetched == 0 || fetched == 2) << fetch.output();
}

TEST_F(TwoCommands, ATeardownWaitsForWhatIsBeingSaved) {
  Process follower = train("job", 1'000'000);
  ASSERT_TRUE(follower.prints("held-out cost ")) << follower.output();
  Process stop = cluster.start({"stop", "--job", "job"});
  ASSERT_TRUE(stop.prints("waiting for ")) << stop.output();
  const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(down.code, 0) << down.output;
  is_torn_down_ = down.code == 0;
  EXPECT_EQ(stop.wait(), 0) << stop.output();
  EXPECT_TRUE(follower.wait().has_value()) << follower.output();
  EXPECT_TRUE(cluster.nothing_left());
}

// The teardown comes before the first connection of the training, or while it claims, pushes and
// starts, or after that. A training that connects after the teardown has ended is not ended by it.
TEST_F(TwoCommands, ATeardownBesideAStartLeavesNothingAndTheStartSaysSo) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
    const std::string job = fmt::format("job-{}", i);
    Process start = train(job, 3);
    ::usleep(static_cast<useconds_t>(i) * 40'000);
    const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(down.code, 0) << down.output << "\n" << job << ": " << start.output();
    const std::optional<int> code = start.wait();
    ASSERT_TRUE(code) << job << ": " << start.output();
    const auto says = [&](const char* text) {
      return start.output().find(text) != std::string::npos;
    };
    EXPECT_TRUE(*code == 0 || says("teardown") || says("has no folder of this cluster") ||
                says("it was asked to end"))
        << job << ": " << start.output();
    EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard", "--cluster", "cluster.toml"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }
  is_torn_down_ = true;
}

// Two trainings at the same time on the same nodes.
class TwoJobs : public TwoCommands {
 protected:
  Process start(const std::string& name, const std::string& output) {
    return cluster.start({"train", "--trainers", "2", "--pservers", "1", "--name", name, "--output",
                          output, "quick_start"});
  }
};

TEST_F(TwoJobs, OfOneNameOneTrainsAndTheOtherLeavesItAlone) {
  for (const char* name : {"first", "second", "third"}) {
    Process a = start(name, "a");
    Process b = start(name, "b");
    const auto a_code = a.wait();
    const auto b_code = b.wait();
    Process& winner = a_code == 0 ? a : b;
    Process& loser = a_code == 0 ? b : a;
    EXPECT_EQ((a_code == 0 ? a_code : b_code).value_or(-1), 0) << winner.output();
    EXPECT_EQ((a_code == 0 ? b_code : a_code).value_or(-1), 2) << loser.output();
    EXPECT_EQ(held_out_costs(winner.output()).size(), 3U) << winner.output();
    EXPECT_NE(loser.output().find(fmt::format("a job named '{}'", name)), std::string::npos)
        << loser.output();
    EXPECT_NE(loser.output().find("hint: "), std::string::npos) << loser.output();
  }
}

TEST_F(TwoJobs, OfTwoNamesBothTrainOnPortsOfTheirOwn) {
  for (const char* round : {"1", "2", "3"}) {
    Process a = start(std::string("a") + round, "a");
    Process b = start(std::string("b") + round, "b");
    EXPECT_EQ(a.wait().value_or(-1), 0) << a.output();
    EXPECT_EQ(b.wait().value_or(-1), 0) << b.output();
    EXPECT_EQ(held_out_costs(a.output()).size(), 3U) << a.output();
    EXPECT_EQ(held_out_costs(b.output()).size(), 3U) << b.output();
  }
}

}  // namespace
}  // namespace paddle::test
