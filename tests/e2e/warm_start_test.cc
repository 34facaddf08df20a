// train --from: a job starts with the parameters of a snapshot.
#include <chrono>
#include <regex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

constexpr const char* kNoLearning = "optimizer.learning_rate=0";

class WarmStart : public testing::Test {
 protected:
  // A job "old" of three passes.
  void SetUp() override {
    cluster.copy_template("quick_start");
    ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
    const Outcome old = train("old", {});
    ASSERT_EQ(old.code, 0) << old.output;
    costs_ = held_out_costs(old.output);
    ASSERT_EQ(costs_.size(), 3U);
  }
  std::vector<std::string> command(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> arguments{"train", "--trainers", "2",  "--pservers",
                                       "2",     "--name",     name, "quick_start"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome train(const std::string& name, std::vector<std::string> more) {
    return cluster.run(command(name, std::move(more)));
  }
  std::string log() const {
    return TemporaryFolder::read(cluster.folder() / "nodes/t/n-0/jobs/new/node_0/train.log");
  }
  bool log_comes_to_say(const std::string& text) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (log().find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  LocalCluster cluster{2};
  std::vector<double> costs_;
};

TEST_F(WarmStart, AFolderOrAJobOfTheClusterGivesTheParameters) {
  int number = 0;
  for (const char* from : {"output/old/pass-00002", "old", "old:pass-00002"}) {
    const Outcome same = train(fmt::format("new-{}", number++),
                               {"--from", from, "--set", "train.passes=1", "--set", kNoLearning});
    ASSERT_EQ(same.code, 0) << same.output;
    EXPECT_EQ(held_out_costs(same.output), std::vector<double>{costs_[2]}) << same.output;
    EXPECT_TRUE(same.says("pass 1 of 1 (pass-00000): held-out")) << "passes start at 0";
  }
  const Outcome before = train(
      "before", {"--from", "old:pass-00001", "--set", "train.passes=1", "--set", kNoLearning});
  EXPECT_EQ(held_out_costs(before.output), std::vector<double>{costs_[1]}) << before.output;
}

TEST_F(WarmStart, ParametersThatDoNotFitAreNamed) {
  std::string job = TemporaryFolder::read(cluster.folder() / "quick_start/job.toml");
  job = std::regex_replace(job, std::regex("\"score\""), "\"tally\"");
  cluster.folder().write("quick_start/job.toml", job);
  const Outcome refused = train("new", {"--from", "old"});
  EXPECT_EQ(refused.code, 6) << refused.output;
  EXPECT_TRUE(refused.says("parameter '_tally.w0' is missing")) << refused.output;
  EXPECT_TRUE(refused.says("jobs/old/output/pass-00002")) << refused.output;
}

TEST_F(WarmStart, ARestartBeforeTheFirstSnapshotStartsThereAgainAndAResumeGoesOn) {
  Process job = cluster.start(
      command("new", {"--from", "old", "--restarts", "2", "--set", "train.passes=1000000", "--set",
                      "train.saving_period=0", "--set", "train.batch_size=1", "--set",
                      "train.snapshot_seconds=0"}));
  ASSERT_TRUE(job.prints("pass 1 of 1000000 (pass-00000): held-out cost ")) << job.output();
  const int pserver = cluster.find_engine("--pserver_id=0");  // a trainer would come back alone
  ASSERT_GT(pserver, 0);
  ASSERT_EQ(::kill(pserver, SIGKILL), 0);
  ASSERT_TRUE(log_comes_to_say("no snapshot to resume from")) << log();
  ASSERT_TRUE(log_comes_to_say("trainer 0 of 2: ")) << log();
  const std::string again = log().substr(log().find("no snapshot to resume from"));
  EXPECT_EQ(again.find("continuing in pass"), std::string::npos) << "the passes of the old job";
  EXPECT_EQ(cluster.run({"stop"}).code, 0);
  EXPECT_EQ(job.wait(), 75) << job.output();
  // The passes of the new job count, not those of the old one.
  const Outcome resumed = train("new", {"--resume", "--set", "train.passes=1000000", "--set",
                                        "train.batch_size=1", "--detach"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  ASSERT_TRUE(log_comes_to_say("continuing in pass ")) << log();
  EXPECT_EQ(cluster.run({"stop", "--now"}).code, 0);
}

}  // namespace
}  // namespace paddle::test
