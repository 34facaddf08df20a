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
    const auto snapshot = find_snapshot_to_resume(fake_.context, fake_.cluster, {0, 1}, plan_.job,
                                                  plan_.trainers.front().node, folder_.path());
    if (!snapshot) return snapshot.error();
    const auto past_tests =
        prepare_to_resume(fake_.context, fake_.cluster, {0, 1}, plan_, *snapshot);
    return past_tests ? Status() : past_tests.error();
  }

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
  folder_.write("j/pass-00010-000007/w", "delta");
  folder_.write("j/pass-00011/w", "without a MANIFEST");
  folder_.write("j/other/MANIFEST", manifest(99, 0));
  const Status prepared = prepare();
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto& files = fake_.node(0).files;
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/w"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/MANIFEST"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010/MANIFEST")) << "its base";
  EXPECT_EQ(files.size(), 3U);
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

TEST_F(ResumeTest, WithoutASnapshotThereIsNothingToResume) {
  const Status prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kUsage);
  EXPECT_FALSE(fake_.node(1).files.empty()) << "its records stay";
}

TEST_F(ResumeTest, ThePreviousRunTellsHowManyProcessesItHad) {
  for (const char* name : {"trainer-0", "trainer-1", "pserver-0"}) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.state = remote::ProcessState::kExited;
    fake_.node(0).processes.push_back(status);
  }
  const auto previous = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "");
  ASSERT_TRUE(previous) << previous.error().message;
  EXPECT_EQ(previous->job, "j");
  EXPECT_EQ(previous->trainers, 2U);
  EXPECT_EQ(previous->pservers, 1U);
  fake_.node(0).processes[1].state = remote::ProcessState::kRunning;
  EXPECT_EQ(find_previous_run(fake_.context, fake_.cluster, {0, 1}, "j").error().code,
            Errc::kUsage);
}

}  // namespace
}  // namespace paddle::cli
