// train.snapshot_copies: the node of trainer 0 is lost, and the job goes on from the copies.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr int kPasses = 4;
constexpr const char* kCopies = "train.snapshot_copies=2";

using Files = std::map<std::string, std::string>;  // contents by name

Files files_of(const fs::path& folder) {
  Files files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    files[entry.path().filename().string()] = TemporaryFolder::read(entry.path());
  }
  return files;
}

// Those that hold parameters: jobs that differ in their settings may have the same.
Files values_of(Files files) {
  std::erase_if(files, [](const auto& file) {
    const std::string& name = file.first;
    return name == "MANIFEST" || name == "job.toml" || name == "path.txt" ||
           name.starts_with("model");
  });
  return files;
}

class SnapshotCopies : public testing::Test {
 protected:
  void SetUp() override {
    cluster.copy_template("word2vec");
    ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300)).code, 0);
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }

  // Two trainers, one on each node.
  std::vector<std::string> command(const std::string& job, int passes,
                                   const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train",
                                       "--trainers",
                                       "2",
                                       "--pservers",
                                       "2",
                                       "--set",
                                       fmt::format("train.passes={}", passes),
                                       "--name",
                                       job,
                                       "word2vec"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome train(const std::string& job, int passes, const std::vector<std::string>& more) {
    return cluster.run(command(job, passes, more));
  }

  fs::path on_node(int node, const std::string& job) const {
    return cluster.folder() / fmt::format("nodes/t/n-{}/jobs/{}", node, job);
  }
  Files snapshot(int node, const std::string& job, const std::string& name) const {
    return files_of(on_node(node, job) / "output" / name);
  }
  // One byte in the middle of a file of it.
  static void damage(const fs::path& snapshot) {
    std::string text = TemporaryFolder::read(snapshot / "_output.w0");
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
    const fs::path damaged = snapshot / "damaged";
    std::ofstream(damaged) << text;
    fs::rename(damaged, snapshot / "_output.w0");  // pushed files may not be written to
  }
  // The disk of trainer 0's node, and what was fetched.
  void lose_first_node(const std::string& job) const {
    fs::remove_all(on_node(0, job));
    fs::remove_all(fs::path(cluster.folder() / "output") / job);
  }
  // The machine: the cluster file does not name it any more.
  void leave_only_second_node() const {
    std::string text = TemporaryFolder::read(cluster.folder() / "cluster.toml");
    text = text.substr(0, text.find("[[node]]"));
    cluster.folder().write("cluster.toml",
                           text + "[[node]]\nname = \"n-1\"\nlauncher = \"local\"\n");
  }
  void expect_undisturbed_end(const std::string& job, int node) {
    const std::string last = fmt::format("pass-{:05}", kPasses - 1);
    if (undisturbed_.empty()) {
      const Outcome whole = train("whole", kPasses, {});
      ASSERT_EQ(whole.code, 0) << whole.output;
      undisturbed_ = values_of(files_of(fs::path(cluster.folder() / "output/whole") / last));
      ASSERT_TRUE(undisturbed_.contains("_output.w0.state"));
    }
    EXPECT_TRUE(values_of(snapshot(node, job, last)) == undisturbed_) << job;
    const fs::path fetched = fs::path(cluster.folder() / "output") / job / last;
    EXPECT_TRUE(values_of(files_of(fetched)) == undisturbed_);
  }

  LocalCluster cluster{2};

 private:
  Files undisturbed_;
};

TEST_F(SnapshotCopies, WithoutThemAllIsLostWithTheNodeOfTrainer0) {
  ASSERT_EQ(train("job", 2, {}).code, 0);
  EXPECT_TRUE(files_of(on_node(1, "job") / "output").empty());
  lose_first_node("job");
  const Outcome resumed = train("job", kPasses, {"--resume"});
  EXPECT_EQ(resumed.code, 2) << resumed.output;
  EXPECT_TRUE(resumed.says("job job has no snapshot")) << resumed.output;
}

TEST_F(SnapshotCopies, BothNodesHaveTheSameBitsAndTheyAreFetchedOnce) {
  const Outcome trained = train("job", 3, {"--set", kCopies});
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_FALSE(trained.says("under one name")) << trained.output;
  EXPECT_FALSE(trained.says("taken from node")) << trained.output;
  for (const char* name : {"pass-00001", "pass-00002"}) {  // train.snapshots_kept = 2
    const Files saved = snapshot(0, "job", name);
    EXPECT_TRUE(saved.contains("MANIFEST")) << name;
    EXPECT_TRUE(saved == snapshot(1, "job", name)) << name;
  }
  for (const int node : {0, 1}) EXPECT_TRUE(snapshot(node, "job", "pass-00000").empty()) << node;
  EXPECT_TRUE(files_of(fs::path(cluster.folder() / "output/job/pass-00002")) ==
              snapshot(0, "job", "pass-00002"));
  // The copy on the second node needs no fetch of its own.
  const Outcome removed = cluster.run({"rm", "job", "--yes"});
  EXPECT_EQ(removed.code, 0) << removed.output;
}

TEST_F(SnapshotCopies, ALostDiskCostsNothing) {
  ASSERT_EQ(train("job", 2, {"--set", kCopies}).code, 0);
  lose_first_node("job");
  const Outcome resumed = train("job", kPasses, {"--resume", "--set", kCopies});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("snapshots are taken from node n-1")) << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00001 copied to n-0")) << resumed.output;
  EXPECT_TRUE(resumed.says("continuing after pass 2")) << resumed.output;
  expect_undisturbed_end("job", 0);
  expect_undisturbed_end("job", 1);
}

TEST_F(SnapshotCopies, ACopyTakesThePlaceOfADamagedSnapshot) {
  const std::vector<std::string> one{"--set", kCopies, "--set", "train.snapshots_kept=1"};
  ASSERT_EQ(train("job", 2, one).code, 0);
  fs::remove_all(fs::path(cluster.folder() / "output/job"));
  damage(on_node(0, "job") / "output/pass-00001");
  std::vector<std::string> more = one;
  more.emplace_back("--resume");
  const Outcome resumed = train("job", kPasses, more);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00001 of node n-0 is skipped: _output.w0 is damaged"))
      << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00001 of node n-0 is renamed to pass-00001.damaged"))
      << resumed.output;
  EXPECT_TRUE(fs::exists(on_node(0, "job") / "output/pass-00001.damaged/_output.w0"));
  EXPECT_TRUE(resumed.says("continuing after pass 2")) << resumed.output;
  expect_undisturbed_end("job", 0);
  expect_undisturbed_end("job", 1);
}

// Trainer 0 reads them all, and says that none is whole.
TEST_F(SnapshotCopies, OnceAllAreFoundDamagedTheNextResumeTakesTheCopy) {
  ASSERT_EQ(train("job", 2, {"--set", kCopies}).code, 0);
  fs::remove_all(fs::path(cluster.folder() / "output/job"));
  for (const char* name : {"pass-00000", "pass-00001"}) damage(on_node(0, "job") / "output" / name);
  const Outcome refused = train("job", kPasses, {"--resume", "--set", kCopies});
  EXPECT_EQ(refused.code, 6) << refused.output;
  const Outcome resumed = train("job", kPasses, {"--resume", "--set", kCopies});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00001 copied to n-0")) << resumed.output;
  expect_undisturbed_end("job", 0);
}

// Trainer 0 alone reads the contents where it has another snapshot to fall back to.
TEST_F(SnapshotCopies, AfterAFallBackTheTerminalSaysFromWhichSnapshot) {
  ASSERT_EQ(train("job", 2, {}).code, 0);
  damage(on_node(0, "job") / "output/pass-00001");
  fs::remove_all(fs::path(cluster.folder() / "output/job"));
  const Outcome resumed = train("job", kPasses, {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(
      resumed.says("warning: trainer-0 on n-0 continued from pass-00000, since pass-00001 is "
                   "damaged: _output.w0"))
      << resumed.output;
  const std::string report =
      TemporaryFolder::read(fs::path(cluster.folder() / "output/job/report.html"));
  EXPECT_NE(report.find("pass-00001.damaged"), std::string::npos);
  expect_undisturbed_end("job", 0);
  // Without its MANIFEST that is known before it starts.
  fs::remove(on_node(0, "job") / fmt::format("output/pass-{:05}/MANIFEST", kPasses - 1));
  fs::remove_all(fs::path(cluster.folder() / "output/job"));
  const Outcome again = train("job", kPasses, {"--resume"});
  ASSERT_EQ(again.code, 0) << again.output;
  const std::string last = fmt::format("pass-{:05}", kPasses - 1);
  EXPECT_TRUE(again.says(last + " of node n-0 is skipped: its MANIFEST is missing or damaged"))
      << again.output;
  EXPECT_TRUE(again.says(fmt::format("continuing after pass {}\n", kPasses - 1))) << again.output;
  EXPECT_TRUE(again.says(fmt::format("since {0} is damaged: open {0}/MANIFEST", last)))
      << again.output;
  expect_undisturbed_end("job", 0);
}

TEST_F(SnapshotCopies, WithoutAWholeOneTheHintNamesAWayOn) {
  ASSERT_EQ(train("job", 1, {}).code, 0);
  const fs::path here = fs::path(cluster.folder() / "output/job");
  fs::rename(here / "pass-00000", cluster.folder() / "kept");
  damage(on_node(0, "job") / "output/pass-00000");
  for (int i = 0; i < 2; ++i) {
    const Outcome refused = train("job", kPasses, {"--resume"});
    EXPECT_EQ(refused.code, 6) << refused.output;
    EXPECT_TRUE(refused.says("pass-00000")) << refused.output;
    EXPECT_TRUE(refused.says("to start from the beginning: paddlectl train with another --name"))
        << refused.output;
  }
  fs::remove_all(here / "pass-00000");
  fs::rename(cluster.folder() / "kept", here / "pass-00000");
  const Outcome resumed = train("job", kPasses, {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  expect_undisturbed_end("job", 0);
}

TEST_F(SnapshotCopies, OfWhatWasFetchedADamagedOneGivesWayToTheOneBefore) {
  ASSERT_EQ(train("job", 3, {"--set", "train.snapshots_kept=0", "--pass", "all"}).code, 0);
  fs::remove_all(on_node(0, "job"));
  const fs::path here = fs::path(cluster.folder() / "output/job");
  damage(here / "pass-00002");
  const Outcome resumed = train("job", kPasses, {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00002 is skipped: _output.w0 is damaged")) << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00001 copied to n-0")) << resumed.output;
  EXPECT_TRUE(resumed.says("continuing after pass 2")) << resumed.output;
  expect_undisturbed_end("job", 0);
}

TEST_F(SnapshotCopies, ALostMachineCostsNothing) {
  ASSERT_EQ(train("job", 2, {"--set", kCopies}).code, 0);
  fs::remove_all(fs::path(cluster.folder() / "output/job"));
  leave_only_second_node();
  // As many processes as before, though this node's records are of one trainer and one pserver.
  const Outcome resumed =
      cluster.run({"train", "--resume", "--name", "job", "--set", kCopies, "--set",
                   fmt::format("train.passes={}", kPasses), "word2vec"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("continuing from the copy on node n-1")) << resumed.output;
  EXPECT_TRUE(resumed.says("2 trainers, 2 pservers on 1 node")) << resumed.output;
  EXPECT_TRUE(resumed.says("train.snapshot_copies = 2, but all trainers are on node n-1"))
      << resumed.output;
  expect_undisturbed_end("job", 1);
}

TEST_F(SnapshotCopies, AStoppedJobGoesOnInTheMiddleOfItsPass) {
  const std::vector<std::string> slow{"--set", kCopies, "--set", "train.batch_size=2"};
  Process job = cluster.start(command("job", 1000000, slow));
  ASSERT_TRUE(job.prints("held-out cost ")) << job.output();
  EXPECT_EQ(cluster.run({"stop", "--job", "job"}).code, 0);
  EXPECT_EQ(job.wait(), 75) << job.output();
  std::vector<std::string> stops;
  for (const auto& entry : fs::directory_iterator(on_node(0, "job") / "output")) {
    const std::string name = entry.path().filename().string();
    if (name.size() > std::string("pass-00000").size()) stops.push_back(name);
  }
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_TRUE(snapshot(0, "job", stops[0]) == snapshot(1, "job", stops[0])) << stops[0];
  lose_first_node("job");
  const int passes = std::stoi(stops[0].substr(5, 5)) + 1;  // this pass is the last one
  std::vector<std::string> more = slow;
  const Outcome whole = train("whole", passes, more);
  ASSERT_EQ(whole.code, 0) << whole.output;
  more.emplace_back("--resume");
  const Outcome resumed = train("job", passes, more);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says(fmt::format("continuing in pass {}, after batch", passes)))
      << resumed.output;
  const std::string last = fmt::format("pass-{:05}", passes - 1);
  EXPECT_TRUE(snapshot(0, "job", last) == snapshot(0, "whole", last));
}

TEST_F(SnapshotCopies, OfADeltaTheCopyIsFull) {
  const std::vector<std::string> deltas{"--set", kCopies,
                                        "--set", "train.full_snapshot_period=2",
                                        "--set", "train.snapshots_kept=0",
                                        "--set", "train.log_period=1"};
  ASSERT_EQ(train("job", 3, deltas).code, 0);
  const std::string of_table = "_proj.sparse-removed";
  const Files delta = snapshot(0, "job", "pass-00001");
  const Files copy = snapshot(1, "job", "pass-00001");
  ASSERT_TRUE(delta.contains(of_table)) << "it is no delta";
  EXPECT_FALSE(copy.contains(of_table));
  EXPECT_EQ(copy.at("_output.w0"), delta.at("_output.w0"));
  for (const char* name : {"pass-00000", "pass-00002"})
    EXPECT_TRUE(snapshot(0, "job", name) == snapshot(1, "job", name)) << name;
  // As if the job had been lost after pass 1.
  for (const int node : {0, 1}) fs::remove_all(on_node(node, "job") / "output/pass-00002");
  lose_first_node("job");
  std::vector<std::string> more = deltas;
  more.emplace_back("--resume");
  const Outcome resumed = train("job", kPasses, more);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("pass-00001 copied to n-0")) << resumed.output;
  expect_undisturbed_end("job", 0);
}

// A damaged snapshot stands in its place, which nothing may replace.
TEST_F(SnapshotCopies, OneThatCannotBeWrittenCostsTheJobNothing) {
  ASSERT_EQ(train("job", 2, {"--set", kCopies}).code, 0);
  const fs::path damaged = on_node(1, "job") / "output/pass-00002";
  fs::create_directories(damaged);
  std::ofstream(damaged / "MANIFEST") << "no manifest\n";
  const Outcome resumed = train("job", kPasses, {"--resume", "--set", kCopies});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const std::string log = TemporaryFolder::read(on_node(1, "job") / "node_1/train.log");
  EXPECT_NE(log.find("the copy on this node is missing; the job continues"), std::string::npos)
      << log;
  expect_undisturbed_end("job", 0);
  expect_undisturbed_end("job", 1);
}

TEST_F(SnapshotCopies, PserversOfTheLostNodeAloneAreReplaced) {
  std::string text = TemporaryFolder::read(cluster.folder() / "cluster.toml");
  text = text.substr(0, text.find("[[node]]"));
  const std::string node = "[[node]]\nlauncher = \"local\"\nname = ";
  cluster.folder().write("cluster.toml",
                         text + node + "\"n-0\"\n" + node + "\"n-1\"\nroles = [\"trainer\"]\n");
  ASSERT_EQ(train("job", 2, {"--set", kCopies}).code, 0);
  fs::remove_all(fs::path(cluster.folder() / "output/job"));
  leave_only_second_node();
  const Outcome resumed = train("job", kPasses, {"--resume", "--set", kCopies});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  expect_undisturbed_end("job", 1);
}

}  // namespace
}  // namespace paddle::test
