#include "cli/job/resume.h"

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"
#include "tests/support/snapshot_manifest.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

// The MANIFEST of a snapshot with one file "model/w" of this content; "": without files.
std::string manifest(int pass, int step, const std::string& base = "", const std::string& w = "") {
  std::map<std::string, std::string> files;
  if (!w.empty()) files["model/w"] = w;
  return test::snapshot_manifest(static_cast<std::uint64_t>(pass), static_cast<std::uint64_t>(step),
                                 base, files);
}

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    plan_.job = "j";
    plan_.trainers.resize(1);
    fake_.node(1).files["jobs/j/proc/trainer-0"] = "ended";
  }
  Status prepare() {
    const auto snapshot = find_snapshot_to_resume(fake_.context, fake_.cluster, {0, 1},
                                                  {.job = plan_.job,
                                                   .node = plan_.trainers.front().node,
                                                   .output = folder_.path(),
                                                   .has_copies = has_copies_,
                                                   .is_own_program = is_own_program_});
    if (!snapshot) return snapshot.error();
    const auto past_tests =
        prepare_to_resume(fake_.context, fake_.cluster, {0, 1}, plan_, *snapshot);
    if (!past_tests) return past_tests.error();
    knew_ended_processes_ = fake_.node(1).files.contains("jobs/j/proc/trainer-0");
    return forget_last_run(fake_.context, fake_.cluster, {0, 1}, plan_);
  }

  void ended(std::size_t node, const std::string& name) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.state = remote::ProcessState::kExited;
    fake_.node(node).processes.push_back(status);
  }
  bool said(const std::string& text) { return fake_.err.str().find(text) != std::string::npos; }

  void save(std::size_t node, int pass, const std::string& w) {
    const std::string snapshot = fmt::format("jobs/j/output/pass-{:05}/", pass);
    fake_.node(node).hashes = true;
    fake_.node(node).files[snapshot + "MANIFEST"] = manifest(pass + 1, 0, "", w);
    fake_.node(node).files[snapshot + "model/w"] = w;
  }
  void save_here(int pass, const std::string& w) {
    const std::string snapshot = fmt::format("j/pass-{:05}/", pass);
    folder_.write(snapshot + "MANIFEST", manifest(pass + 1, 0, "", w));
    folder_.write(snapshot + "model/w", w);
  }
  std::string& on_node(std::size_t node, const std::string& file) {
    return fake_.node(node).files["jobs/j/output/" + file];
  }
  bool has(std::size_t node, const std::string& file) {
    return fake_.node(node).files.contains("jobs/j/output/" + file);
  }
  void refused() {
    for (remote::ProcessStatus& status : fake_.node(0).processes) {
      if (status.name == "trainer-0") status.exit_code = static_cast<int>(Errc::kData);
    }
  }

  bool has_copies_ = false;
  bool is_own_program_ = false;
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
  folder_.write("j/pass-00010-000007/model/w", "delta");
  folder_.write("j/pass-00011/model/w", "without a MANIFEST");
  folder_.write("j/other/MANIFEST", manifest(99, 0));
  const Status prepared = prepare();
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto& files = fake_.node(0).files;
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/model/w"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/MANIFEST"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010-000007/model/job.toml"));
  EXPECT_TRUE(files.contains("jobs/j/output/pass-00010/MANIFEST")) << "its base";
  EXPECT_EQ(files.size(), 4U);
  EXPECT_TRUE(knew_ended_processes_) << "the setup may fail now";
  EXPECT_TRUE(fake_.node(1).files.empty()) << "records of ended processes are removed";
}

TEST_F(ResumeTest, TestsOfEarlierPassesComeWithTheFetchedSnapshotIfTheNodeHasNone) {
  save_here(3, "weights");
  folder_.write("j/TESTS", "fetched");
  on_node(0, "TESTS") = "its own";
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "TESTS"), "its own");
  fake_.node(0).files.clear();
  folder_.write("j/TESTS", "fetched");
  ASSERT_TRUE(prepare());
  EXPECT_TRUE(has(0, "pass-00003/model/w"));
  EXPECT_EQ(on_node(0, "TESTS"), "fetched");
}

TEST_F(ResumeTest, ASnapshotOnTheNodeIsLeftAsItIs) {
  save_here(9, "newer");
  save(0, 1, "weights");
  fake_.node(0).files.erase("jobs/j/proc/trainer-0");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.node(0).files.size(), 2U);
  EXPECT_TRUE(said("continuing after pass 2\n")) << fake_.err.str();
}

TEST_F(ResumeTest, WhatAProgramOfTheUsersOwnSavedIsItsOwnToJudge) {
  is_own_program_ = true;
  folder_.write("j/pass-00010/MANIFEST", manifest(3, 0));
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = "theirs";
  ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.node(0).files.size(), 1U);
}

// docs/trainer.md names two kinds of file by which it is found.
TEST_F(ResumeTest, ACheckpointOfAProgramOfTheUsersOwnIsFoundOnTheNodeAndHere) {
  is_own_program_ = true;
  on_node(0, "checkpoint.pt") = "theirs";
  EXPECT_TRUE(prepare()) << "on the node";
  EXPECT_EQ(on_node(0, "checkpoint.pt"), "theirs");
  fake_.node(0).files.clear();
  folder_.write("j/checkpoint.pt", "fetched");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "checkpoint.pt"), "fetched");
  std::filesystem::remove(folder_ / "j/checkpoint.pt");
  fake_.node(0).files.clear();
  on_node(0, "ckpt/MANIFEST") = "";
  on_node(0, "ckpt/model.pt") = "theirs";
  EXPECT_TRUE(prepare()) << "a folder with a MANIFEST";
  EXPECT_EQ(on_node(0, "ckpt/model.pt"), "theirs");
  fake_.node(0).files.clear();
  folder_.write("j/runs/a/MANIFEST", "");
  folder_.write("j/runs/a/weights.npz", "w");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "runs/a/weights.npz"), "w");
}

TEST_F(ResumeTest, WhatIsNoCheckpointIsNotGoneOnFrom) {
  is_own_program_ = true;
  for (const char* const file : {"model.pt", "old/checkpoint.pt", "MANIFEST.txt", "loss.csv"}) {
    fake_.node(0).files.clear();
    on_node(0, file) = "theirs";
    const Status prepared = prepare();
    ASSERT_FALSE(prepared) << file;
    EXPECT_EQ(prepared.error().code, Errc::kUsage) << file;
  }
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
  ended(0, "trainer-0");
  ended(1, "trainer-1");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(fake_.node(0).files["jobs/j/output/pass-00002/MANIFEST"], manifest(3, 0));
  EXPECT_TRUE(
      said("snapshots are taken from node n-1: node n-0 of trainer 0 has no complete snapshot as "
           "new as this one"))
      << fake_.err.str();
}

// A node that was lost and is back has snapshots of a run before the last one.
TEST_F(ResumeTest, WhatTheLastRunSavedGoesBeforeWhatANodeThatIsBackHas) {
  save(0, 1, "weights");
  save(1, 4, "newest");
  ended(1, "trainer-0");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00004/model/w"), "newest");
  EXPECT_TRUE(said("continuing after pass 5\n")) << fake_.err.str();
}

TEST_F(ResumeTest, WhatWasFetchedOfTheLastRunGoesBeforeWhatANodeThatIsBackHas) {
  save(0, 1, "weights");
  save_here(3, "fetched");
  ended(1, "trainer-0");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00003/model/w"), "fetched");
  EXPECT_TRUE(said("node n-0 has no snapshot as new as this one")) << fake_.err.str();
}

TEST_F(ResumeTest, ACopyTakesThePlaceOfADamagedSnapshot) {
  has_copies_ = true;
  ended(0, "trainer-0");
  ended(1, "trainer-1");
  for (const std::size_t node : {0, 1}) save(node, 1, "weights");
  on_node(0, "pass-00001/model/w") = "weighed";
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00001/model/w"), "weights");
  EXPECT_EQ(on_node(0, "pass-00001.damaged/model/w"), "weighed");
  EXPECT_TRUE(said("pass-00001 of node n-0 is skipped: model/w is damaged")) << fake_.err.str();
  EXPECT_TRUE(said("pass-00001 of node n-0 is renamed to pass-00001.damaged"));
  EXPECT_TRUE(said("pass-00001 copied to n-0")) << fake_.err.str();
  EXPECT_TRUE(said("continuing after pass 2\n")) << fake_.err.str();
  on_node(0, "pass-00001/MANIFEST") = "";
  ended(1, "trainer-1");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00001/model/w"), "weights");
  EXPECT_TRUE(has(0, "pass-00001.damaged-2/MANIFEST"));
}

// Trainer 0 goes back to an earlier one by itself; contents are read once it has found none whole.
TEST_F(ResumeTest, OfSeveralThatAreAllDamagedTheCopyIsTakenOnceThatIsKnown) {
  has_copies_ = true;
  ended(0, "trainer-0");
  ended(1, "trainer-1");
  for (const std::size_t node : {0, 1}) {
    for (const int pass : {1, 2}) save(node, pass, "weights");
  }
  for (const char* file : {"pass-00001/model/w", "pass-00002/model/w"})
    on_node(0, file) = "weighed";
  ASSERT_TRUE(prepare());
  EXPECT_FALSE(said("copied to")) << fake_.err.str();
  ended(0, "trainer-0");
  ended(1, "trainer-1");
  refused();
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00002/model/w"), "weights");
  EXPECT_EQ(on_node(0, "pass-00001/model/w"), "weighed") << "its trainer passes over that";
  EXPECT_TRUE(said("pass-00002 copied to n-0")) << fake_.err.str();
}

TEST_F(ResumeTest, ADamagedCopyIsPassedOverToo) {
  has_copies_ = true;
  ended(0, "trainer-0");
  ended(1, "trainer-1");
  save(0, 2, "weights");
  on_node(0, "pass-00002/MANIFEST") = "cut off";
  for (const int pass : {1, 2}) save(1, pass, "weights");
  on_node(1, "pass-00002/model/w") = "weighed";
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00001/model/w"), "weights");
  EXPECT_TRUE(said("pass-00002 of node n-1 is skipped: model/w is damaged")) << fake_.err.str();
  EXPECT_TRUE(said("continuing after pass 2\n")) << fake_.err.str();
}

TEST_F(ResumeTest, WithoutACopyWhatWasFetchedTakesThePlaceOfADamagedSnapshot) {
  ended(0, "trainer-0");
  save(0, 1, "weights");
  on_node(0, "pass-00001/model/w") = "weighed";
  save(1, 7, "of a node without a trainer");
  ASSERT_TRUE(prepare());
  EXPECT_FALSE(said("copied to")) << "its trainer says that none is whole";
  save_here(1, "weights");
  ASSERT_TRUE(prepare());
  EXPECT_EQ(on_node(0, "pass-00001/model/w"), "weights");
  EXPECT_EQ(on_node(0, "pass-00001.damaged/model/w"), "weighed");
  EXPECT_TRUE(said("no snapshot of node n-0 is complete: continuing from")) << fake_.err.str();
}

TEST_F(ResumeTest, OfWhatWasFetchedTheNewestWholeOneIsPushed) {
  for (const int pass : {0, 1, 2, 3, 4}) save_here(pass, "weights");
  folder_.write("j/pass-00003/MANIFEST", manifest(4, 0, "pass-00002"));
  folder_.write("j/pass-00002/model/w", "weighed");
  folder_.write("j/pass-00004/MANIFEST", "");
  ASSERT_TRUE(prepare());
  EXPECT_TRUE(has(0, "pass-00001/MANIFEST"));
  EXPECT_FALSE(has(0, "pass-00002/MANIFEST"));
  EXPECT_TRUE(said("pass-00004 is skipped: its MANIFEST is missing or damaged"));
  EXPECT_TRUE(said("pass-00003 is skipped: in its base pass-00002, model/w is damaged"));
  EXPECT_TRUE(said("pass-00002 is skipped: model/w is damaged")) << fake_.err.str();
  EXPECT_TRUE(said("continuing after pass 2\n")) << fake_.err.str();
}

TEST_F(ResumeTest, WhenNothingIsWholeAnywhereItIsRefusedByName) {
  save_here(0, "weights");
  folder_.write("j/pass-00000/model/w", "weighed");
  const Status prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kData);
  EXPECT_TRUE(said("pass-00000 is skipped: model/w is damaged")) << fake_.err.str();
}

// An older snapshot would be trained over, and the newer one is not damaged.
TEST_F(ResumeTest, ASnapshotOfAnotherFormatHereIsAnErrorByItsName) {
  save_here(0, "weights");
  folder_.write("j/pass-00001/MANIFEST", test::manifest_of_another_format());
  const Status prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kVersion);
  EXPECT_NE(
      prepared.error().message.find("pass-00001: MANIFEST: it has snapshot format 1, but this"),
      std::string::npos)
      << prepared.error().message;
  EXPECT_FALSE(has(0, "pass-00000/MANIFEST"));
}

TEST_F(ResumeTest, ASnapshotOfAnotherFormatOnANodeIsAnErrorByItsName) {
  on_node(0, "pass-00001/MANIFEST") = manifest(2, 0);
  on_node(0, "pass-00002/MANIFEST") = test::manifest_of_another_format();
  const Status prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kVersion);
  EXPECT_TRUE(prepared.error().message.starts_with(
      "pass-00002 of node n-0: MANIFEST: it has snapshot format 1"))
      << prepared.error().message;
  EXPECT_FALSE(prepared.error().hint.empty());
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
  EXPECT_EQ(prepared.error().message, "nodes n-0 and n-1 both report that they run trainer-0");
}

TEST_F(ResumeTest, TheCopyThatIsGoneOnFromIsNamed) {
  ended(0, "trainer-1");
  fake_.node(0).files["jobs/j/output/pass-00001/MANIFEST"] = manifest(2, 0);
  ASSERT_TRUE(prepare());
  EXPECT_TRUE(said("continuing from the copy on node n-0; trainer 0 ran on another node"))
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
  const auto unknown = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "", folder_.path());
  ASSERT_TRUE(unknown) << unknown.error().message;
  EXPECT_FALSE(unknown->pservers) << "that one may have had some on a node that is gone";
  fake_.node(0).processes[0].trainers = 1;
  EXPECT_EQ(find_previous_run(fake_.context, fake_.cluster, {0, 1}, "", folder_.path())->pservers,
            0U);
}

TEST_F(ResumeTest, ThePreviousRunTellsHowManyProcessesItHad) {
  for (const char* name : {"trainer-0", "trainer-1", "pserver-0"}) ended(0, name);
  const auto previous = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "", folder_.path());
  ASSERT_TRUE(previous) << previous.error().message;
  EXPECT_EQ(previous->job, "j");
  EXPECT_EQ(previous->trainers, 2U);
  EXPECT_EQ(previous->pservers, 1U);
  // Others were on a node that is gone.
  fake_.node(0).processes[2].trainers = 4;
  fake_.node(0).processes[2].pservers = 3;
  const auto known = find_previous_run(fake_.context, fake_.cluster, {0, 1}, "", folder_.path());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->trainers, 4U);
  EXPECT_EQ(known->pservers, 3U);
  fake_.node(0).processes[1].state = remote::ProcessState::kRunning;
  EXPECT_EQ(
      find_previous_run(fake_.context, fake_.cluster, {0, 1}, "j", folder_.path()).error().code,
      Errc::kUsage);
}

}  // namespace
}  // namespace paddle::cli
