// Tests of the statistics that paddlectl gives a job: the nodes make them, or those of a snapshot
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
constexpr const char* kMade = R"({"format":1,"records":9,"slots":[
{"name":"kind","labels":["a","b"]}]})";
constexpr const char* kFormer = R"({"format":1,"records":8,"slots":[
{"name":"kind","labels":["a"]}]})";
constexpr const char* kOther = R"({"format":1,"records":8,"slots":[
{"name":"sort","labels":["a"]}]})";

class GiveStatistics : public testing::Test {
 protected:
  GiveStatistics() {
    workspace_.lacks_statistics = true;
    plan_.job = "j";
    add_trainer(1);
    request_ = {"bin/paddle-0123", folder_.path(), ""};
    request_.data.slots = {{.name = "kind", .learns_labels = true}};
    for (remote::FakeNode& node : fake_.nodes) {
      node.on_run = [this, &node](const remote::CommandSpec& command,
                                  const remote::CommandOutput& output) {
        ++runs_;
        command_ = command;
        if (!said_.empty()) output(said_, false);
        if (end_.exit_code == 0) node.files["jobs/j/statistics/part-0"] = kMade;
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
  EXPECT_EQ(here(), kMade);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "j/.statistics"));
  for (remote::FakeNode& node : fake_.nodes) EXPECT_EQ(node.files[kOnNode], kMade);
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
  fake_.node(1).files[kInSnapshot] = kFormer;
  fake_.node(1).files[kOnNode] = kOther;
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(here(), kFormer);
  for (remote::FakeNode& node : fake_.nodes) EXPECT_EQ(node.files[kOnNode], kFormer);

  // A snapshot has no file above its limit.
  fake_.node(1).files.erase(kInSnapshot);
  fake_.node(1).files[kOnNode] = kMade;
  ASSERT_TRUE(give());
  EXPECT_EQ(here(), kMade);
  EXPECT_EQ(runs_, 0);
}

TEST_F(GiveStatistics, AResumedJobWithOtherSlotsIsRefused) {
  request_.snapshot = "pass-00001";
  fake_.node(1).files[kInSnapshot] = kOther;
  const Status refused = give();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "statistics of pass-00001: it has no statistics of slot 'kind'");
  EXPECT_EQ(refused.error().hint,
            "a resumed job keeps its statistics: undo the change of the slot's keys, or start a "
            "new job: paddlectl train without --resume");
  EXPECT_EQ(runs_, 0);
}

// The rows and outputs of the parameters belong to the labels and constants of their statistics.
TEST_F(GiveStatistics, AJobThatBeginsWithASnapshotHasItsStatistics) {
  const std::string snapshot = "jobs/old/output/pass-00003";
  const std::string file = snapshot + "/model/statistics.json";
  request_.from = StartSnapshot{snapshot, {}};
  fake_.node(1).files[file] = kFormer;
  fake_.node(1).files[kOnNode] = kOther;
  const Status given = give();
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(here(), kFormer);
  for (remote::FakeNode& node : fake_.nodes) EXPECT_EQ(node.files[kOnNode], kFormer);
  EXPECT_NE(fake_.err.str().find("statistics are those of the snapshot of --from"),
            std::string::npos);

  fake_.node(1).files[file] = kOther;
  const Status misfit = give();
  ASSERT_FALSE(misfit);
  EXPECT_EQ(misfit.error().message,
            "statistics of the snapshot of --from: it has no statistics of slot 'kind'");
  EXPECT_NE(misfit.error().hint.find("start without --from"), std::string::npos);
  EXPECT_NE(misfit.error().hint.find("--set data.statistics=FILE"), std::string::npos);

  fake_.node(1).files.erase(file);
  fake_.node(1).files[file + ".sha256"] = "0123  statistics.json\n";
  const Status too_large = give();
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, Errc::kUsage);
  EXPECT_NE(too_large.error().message.find("only the hash of its statistics"), std::string::npos);
  EXPECT_EQ(runs_, 0);

  // Parameters of a model whose columns were not prepared.
  fake_.node(1).files.erase(file + ".sha256");
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(here(), kMade);
}

TEST_F(GiveStatistics, AFolderHereIsSuchASnapshotToo) {
  folder_.write("saved/pass-00003/model/statistics.json", kFormer);
  request_.from = StartSnapshot{"", {folder_ / "saved/pass-00003"}};
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(here(), kFormer);
}

TEST_F(GiveStatistics, AJobThatBeginsAnewMakesNewOnes) {
  fake_.node(1).files[kOnNode] = kFormer;
  ASSERT_TRUE(give());
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(here(), kMade);
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
  // The engine by itself, and the engine as the program of a shell.
  for (const remote::CommandEnd& killed :
       {remote::CommandEnd{.signal = 9}, remote::CommandEnd{.exit_code = 137}}) {
    end_ = killed;
    EXPECT_EQ(give().error().message,
              "node n-1: statistics of its training data: paddle statistics was killed by signal 9 "
              "(Killed)");
    EXPECT_NE(give().error().hint.find("enough memory"), std::string::npos);
  }
  end_ = {.exit_code = 2};
  EXPECT_EQ(give().error().message,
            "node n-1: statistics of its training data: paddle statistics exited with code 2");
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
