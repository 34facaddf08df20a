// Tests of the statistics that paddlectl gives a job: who makes them, and when the former ones
// stay.
#include "cli/job/statistics.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

constexpr const char* kOnNode = "jobs/j/statistics.json";
constexpr const char* kInSnapshot = "jobs/j/output/pass-00001/model/statistics.json";

class GiveStatistics : public testing::Test {
 protected:
  GiveStatistics() {
    workspace_.lacks_statistics = true;
    plan_.job = "j";
    add_trainer(1);
    request_ = {"bin/paddle-0123", folder_.path(), ""};
    for (remote::FakeNode& node : fake_.nodes) {
      node.on_run = [this, &node](const remote::CommandSpec& command,
                                  const remote::CommandOutput& output) {
        ++runs_;
        command_ = command;
        if (!said_.empty()) output(said_, false);
        if (end_.exit_code == 0) node.files["jobs/j/statistics/part-0"] = "made";
        return Result<remote::CommandEnd>(end_);
      };
    }
  }
  void add_trainer(std::size_t node) {
    PlannedProcess trainer;
    trainer.node = node;
    trainer.spec.environment = {{"TOKEN", "secret"}};
    plan_.trainers.push_back(trainer);
  }
  Status give() {
    ClusterSession session = fake_.session();
    return give_statistics(fake_.context, session, plan_, workspace_, request_);
  }
  std::string here() { return test::TemporaryFolder::read(folder_ / "j/statistics.json"); }

  FakeCluster fake_{2};
  test::TemporaryFolder folder_;
  Workspace workspace_;
  JobPlan plan_;
  StatisticsRequest request_;
  remote::CommandSpec command_;
  remote::CommandEnd end_;
  std::string said_;
  int runs_ = 0;
};

TEST_F(GiveStatistics, AJobThatNeedsNoneIsLeftAlone) {
  workspace_.lacks_statistics = false;
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "j"));
}

TEST_F(GiveStatistics, TheNodeOfTheTrainerMakesThemForAll) {
  const Status given = give();
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(here(), "made");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "j/.statistics"));
  for (remote::FakeNode& node : fake_.nodes) EXPECT_EQ(node.files[kOnNode], "made");
  EXPECT_FALSE(fake_.node(1).files.contains("jobs/j/statistics/part-0"));
  const auto& words = command_.arguments;
  EXPECT_EQ((std::vector<std::string>(words.begin() + 5, words.end())),
            (std::vector<std::string>{"jobs/j/workspace", "bin/paddle-0123", "jobs/j/statistics",
                                      "1", "0"}));
  // A program that reads objects may need it; an argument would be seen by other users.
  EXPECT_EQ(command_.environment.at("TOKEN"), "secret");
}

TEST_F(GiveStatistics, AJobThatContinuesHasThoseOfItsSnapshot) {
  request_.snapshot = "pass-00001";
  fake_.node(1).files[kInSnapshot] = "former";
  fake_.node(1).files[kOnNode] = "other";
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(here(), "former");
  for (remote::FakeNode& node : fake_.nodes) EXPECT_EQ(node.files[kOnNode], "former");

  // A snapshot has no file above its limit.
  fake_.node(1).files.erase(kInSnapshot);
  fake_.node(1).files[kOnNode] = "large";
  ASSERT_TRUE(give());
  EXPECT_EQ(here(), "large");
  EXPECT_EQ(runs_, 0);
}

TEST_F(GiveStatistics, AJobThatBeginsAnewMakesNewOnes) {
  fake_.node(1).files[kOnNode] = "former";
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(here(), "made");
}

TEST_F(GiveStatistics, AFailureNamesTheNodeAndItsCause) {
  end_.exit_code = static_cast<int>(Errc::kData);
  said_ = "paddle: data/a.csv:2: bad\nhint: repair it\n";
  const Status failed = give();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kData);
  EXPECT_EQ(failed.error().message, "node n-1: statistics of its training data: data/a.csv:2: bad");
  EXPECT_EQ(failed.error().hint, "repair it");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "j/statistics.json"));

  said_.clear();
  end_ = {.exit_code = 0, .signal = 9};
  EXPECT_EQ(give().error().message,
            "node n-1: statistics of its training data: paddle statistics was killed by signal 9");
  end_ = {.exit_code = 137};
  EXPECT_EQ(give().error().message,
            "node n-1: statistics of its training data: paddle statistics exited with code 137");
}

TEST_F(GiveStatistics, AnInterruptStartsNothing) {
  fake_.interrupted = true;
  const Status failed = give();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kInterrupted);
}

TEST_F(GiveStatistics, APartThatIsNotThereIsAnError) {
  add_trainer(1);
  const Status failed = give();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "node n-1 lacks the statistics of trainer-1");
}

}  // namespace
}  // namespace paddle::cli
