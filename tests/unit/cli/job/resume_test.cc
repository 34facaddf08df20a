#include "cli/job/resume.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

std::string manifest(int pass, int step, const std::string& base = "") {
  return "snapshot v1\nprogress pass=" + std::to_string(pass) + " step=" + std::to_string(step) +
         "\n" + (base.empty() ? "" : "base id=7 name=" + base + "\n");
}

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    plan_.job = "j";
    plan_.trainers.resize(1);
    fake_.node(1).files["jobs/j/proc/trainer-0"] = "ended";
  }
  Status prepare() {
    const auto snapshot =
        find_snapshot_to_resume(fake_.context, fake_.cluster, {0, 1}, plan_.job,
                                plan_.trainers.front().node, folder_.path(), has_copies_);
    if (!snapshot) return snapshot.error();
    const auto past_tests =
        prepare_to_resume(fake_.context, fake_.cluster, {0, 1}, plan_, *snapshot);
    if (!past_tests) return past_tests.error();
    knew_ended_processes_ = fake_.node(1).files.contains("jobs/j/proc/trainer-0");
    return forget_ended_processes(fake_.context, fake_.cluster, {0, 1}, plan_.job);
  }

  void ended(std::size_t node, const std::string& name) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.state = remote::ProcessState::kExited;
    fake_.node(node).processes.push_back(status);
  }
  bool said(const std::string& text) { return fake_.err.str().find(text) != std::string::npos; }

  bool has_copies_ = false;
  bool knew_ended_processes_ = false;  // when all was prepared
  FakeCluster fake_{2};
  JobPlan plan_;
  test::TemporaryFolder folder_;
};

TEST_F(ResumeTest, TheFetchedSnapshotWithTheMostProgressIsPushedWithItsBase) {
  folder_.write("j/pass-00009/MANIFEST", manifest(2, 0));
  folder_.write("j/pass-00010/MANIFEST", manifest(3, 0));
  for (int step = 1; step < 7; ++step) {  // a directory lists its entries in any order
    folder_.write("j/pass-00010-00000" + std::to_string(step) + "/MANIFEST", manifest(3, step));
  }
  folder_.write("j/pass-00010-000007/MANIFEST", manifest(3, 7, "pass-00010"));
  folder_.write("j/pass-00010-000007/model/job.toml", "seed = 1");
  folder_.write("j/pass-00010-000007/w", "delta");
  folder_.write("j/pass-00011/w", "without a MANIFEST");
  folder_.write("j/other/MANIFEST", manifest(99, 0));
  const Status prepared = prepare();
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto& files = fake_.node(0).files;
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/w"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/MANIFEST"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/model/job.toml"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010/MANIFEST")) << "its base";
  EXPECT_EQ(files.size(), 4U);
  EXPECT_TRUE(knew_ended_processes_) << "the setup may fail now";
  EXPECT_TRUE(fake_.node(1).files.empty()) << "records of ended processes are removed";
}

TEST_F(ResumeTest, ASnapshotOnTheNodeIsLeftAsItIs) {
  folder_.write("j/pass-00010/MANIFEST", manifest(3, 0));
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = "theirs";
  ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.node(0).files.size(), 1U);
}

TEST_F(ResumeTest, ASnapshotOfAnotherNodeIsBroughtToTrainer0) {
  fake_.node(1).files["jobs/j/output/pass-00001/MANIFEST"] = manifest(2, 0);
  ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"], manifest(2, 0));
}

// As when trainer 0 died before it had saved what its copy has already.
TEST_F(ResumeTest, ACopyWithMoreProgressIsBroughtToTrainer0) {
  ended(0, "trainer-0");
  ended(1, "trainer-1");
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = manifest(2, 0);
  fake_.node(1).files["jobs/j/output/pass-00002/MANIFEST"] = manifest(3, 0);
  ASSERT_TRUE(prepare());
  EXPECT_FALSE(fake_.node(0).files.contains("jobs/j/output/pass-00002/MANIFEST"))
      << "no other node may add one to a job without copies";
  has_copies_ = true;
  ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.node(0).files["jobs/j/output/pass-00002/MANIFEST"], manifest(3, 0));
  EXPECT_TRUE(said("snapshots are taken from node n-1: that of trainer 0, n-0, has none so new"))
      << fake_.err.str();
}

TEST_F(ResumeTest, OnlyTheNodeOfATrainerHasCopies) {
  has_copies_ = true;
  ended(0, "trainer-0");
  ended(1, "pserver-0");
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = manifest(2, 0);
  fake_.node(1).files["jobs/j/output/pass-00002/MANIFEST"] = manifest(3, 0);
  ASSERT_TRUE(prepare());
  EXPECT_FALSE(fake_.node(0).files.contains("jobs/j/output/pass-00002/MANIFEST"));
}

// The node of trainer 0 was lost, the job went on without it, and the node came back.
TEST_F(ResumeTest, AnOldNodeThatIsBackIsNotGoneOnFrom) {
  has_copies_ = true;
  ended(0, "trainer-0");
  ended(1, "trainer-0");
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = manifest(2, 0);
  fake_.node(1).files["jobs/j/output/pass-00007/MANIFEST"] = manifest(8, 0);
  const Status prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().message, "nodes n-0 and n-1 both say that they run trainer-0");
}

TEST_F(ResumeTest, TheCopyThatIsGoneOnFromIsNamed) {
  ended(0, "trainer-1");
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = manifest(2, 0);
  ASSERT_TRUE(prepare());
  EXPECT_TRUE(said("going on from the copy on node n-0; trainer 0 was on another"))
      << fake_.err.str();
}

TEST_F(ResumeTest, WithoutASnapshotThereIsNothingToResume) {
  const Status prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kUsage);
  EXPECT_FALSE(fake_.node(1).files.empty()) << "its records stay";
}

TEST_F(ResumeTest, APreviousRunWithoutPserversTellsSo) {
  ended(0, "trainer-0");
  const auto unknown = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "");
  ASSERT_TRUE(unknown) << unknown.error().message;
  EXPECT_FALSE(unknown->pservers) << "that one may have had some on a node that is gone";
  fake_.node(0).processes[0].trainers = 1;
  EXPECT_EQ(find_previous_run(fake_.context, fake_.cluster, {0, 1}, "")->pservers, 0U);
}

TEST_F(ResumeTest, ThePreviousRunTellsHowManyProcessesItHad) {
  for (const char* name : {"trainer-0", "trainer-1", "pserver-0"}) ended(0, name);
  const auto previous = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "");
  ASSERT_TRUE(previous) << previous.error().message;
  EXPECT_EQ(previous->job, "j");
  EXPECT_EQ(previous->trainers, 2U);
  EXPECT_EQ(previous->pservers, 1U);
  // Others were on a node that is gone.
  fake_.node(0).processes[2].trainers = 4;
  fake_.node(0).processes[2].pservers = 3;
  const auto known = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "");
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->trainers, 4U);
  EXPECT_EQ(known->pservers, 3U);
  fake_.node(0).processes[1].state = remote::ProcessState::kRunning;
  EXPECT_EQ(find_previous_run(fake_.context, fake_.cluster, {0, 1}, "j").error().code,
            Errc::kUsage);
}

}  // namespace
}  // namespace paddle::cli
