// A node of a running job is lost, or some of what lies on it is.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class LostNodes : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0); }

  std::string node(int number) const {
    return cluster.folder() / fmt::format("nodes/t/n-{}", number);
  }
  std::string away() const { return cluster.folder() / "away"; }
  std::vector<int> processes_on(int number) const { return processes_in(node(number)); }
  std::vector<int> processes_in(const std::string& folder) const {
    std::vector<int> found;
    for (const int pid : cluster.processes()) {
      std::error_code gone;
      const auto program = fs::read_symlink(fmt::format("/proc/{}/exe", pid), gone);
      if (program.string().starts_with(folder + "/")) found.push_back(pid);
    }
    return found;
  }
  // A supervisor and its guard start each other again.
  void kill_all_in(const std::string& folder) const {
    for (int quiet = 0, tries = 0; quiet < 3 && tries < 1000; ++tries) {
      const std::vector<int> found = processes_in(folder);
      for (const int pid : found) ::kill(pid, SIGKILL);
      quiet = found.empty() ? quiet + 1 : 0;
      ::poll(nullptr, 0, 10);
    }
  }
  // With the keys, which are in the machine's memory.
  void lose(int number) const {
    const fs::path keys = fs::canonical(node(number) + "/jobs/job/keys");
    take_away(number);  // at once: train starts another agent where it finds the folder
    fs::remove_all(keys);
    fs::remove_all(away());
  }
  // As a machine that loses its power: its disk stays as it is, and may come back.
  void take_away(int number) const {
    kill_all_in(node(number));
    fs::rename(node(number), away());
    kill_all_in(away());
  }
  // The number of the newest snapshot of a job on a node; -1: it has none.
  int newest_pass(int number, const std::string& job) const {
    int newest = -1;
    std::error_code ignored;
    for (const auto& entry :
         fs::directory_iterator(node(number) + "/jobs/" + job + "/output", ignored)) {
      const std::string name = entry.path().filename().string();
      if (fs::exists(entry.path() / "MANIFEST", ignored) && name.starts_with("pass-"))
        newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }
  void remove_agents(int number) const {
    for (const auto& entry : fs::directory_iterator(node(number) + "/bin")) {
      if (entry.path().filename().string().starts_with("paddlectl-agent-"))
        fs::remove(entry.path());
    }
  }
  // Trainers that write a line and wait.
  void start_waiting_job() {
    cluster.folder().write("own/job.toml",
                           "[trainer]\ncommand = [\"sh\", \"-c\", \"echo here; sleep 1000\"]\n");
    const Outcome started = cluster.run(
        {"train", "--trainers", "3", "--pservers", "0", "--name", "job", "--detach", "own"});
    ASSERT_EQ(started.code, 0) << started.output;
  }

  std::string records(int number) const { return node(number) + "/jobs/job/proc"; }
  // Whether the supervisors on a node have written both files of each of these processes again.
  bool records_return(int number, const std::vector<std::string>& names) const {
    for (int tries = 0; tries < 6000; ++tries, ::poll(nullptr, 0, 10)) {
      const bool are_there = std::ranges::all_of(names, [&](const std::string& name) {
        return fs::exists(records(number) + "/" + name + "/spec") &&
               fs::exists(records(number) + "/" + name + "/pid");
      });
      if (are_there) return true;
    }
    return false;
  }

  LocalCluster cluster{3};
};

// Its trainers and pservers would come back ten minutes long.
TEST_F(LostNodes, EndAJobUnderRestartsAndAreNamed) {
  cluster.copy_template("word2vec");
  ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300)).code, 0);
  Process job = cluster.start({"train", "--trainers", "3", "--pservers", "2", "--restarts", "5",
                               "--set", "train.passes=1000000", "--name", "job", "word2vec"});
  ASSERT_TRUE(job.prints("held-out cost ")) << job.output();
  lose(0);
  EXPECT_EQ(job.wait(), 4) << job.output();
  EXPECT_NE(job.output().find("error: node n-0 is lost: it no longer has a folder of this cluster; "
                              "pserver-0, trainer-0 of job ran there"),
            std::string::npos)
      << job.output();
  for (const int left : {1, 2}) EXPECT_TRUE(processes_on(left).empty()) << left;
  const Outcome status = cluster.run({"status", "--job", "job"});
  EXPECT_EQ(status.code, 2) << status.output;
  EXPECT_TRUE(
      status.says("node n-0 is lost: it no longer has a folder of this cluster; pserver-0, "
                  "trainer-0 of job ran there"))
      << status.output;
  EXPECT_FALSE(status.says("never started")) << status.output;
}

TEST_F(LostNodes, OneThatIsBackKnowsNothingOfTheRunsSince) {
  cluster.copy_template("word2vec");
  ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300)).code, 0);
  Process job =
      cluster.start({"train", "--trainers", "3", "--pservers", "2", "--name", "job", "--set",
                     "train.passes=1000000", "--set", "train.snapshot_copies=2", "word2vec"});
  for (int tries = 0; tries < 3000 && newest_pass(1, "job") < 1; ++tries) ::poll(nullptr, 0, 20);
  take_away(0);
  EXPECT_EQ(job.wait(), 4) << job.output();
  const int lost_at = newest_pass(1, "job");
  ASSERT_GE(lost_at, 1) << job.output();

  const auto go_on = [&](int passes, std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "train",      "--resume", "--name", "job", "--set", fmt::format("train.passes={}", passes),
        "--trainers", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cluster.run(arguments);
  };
  const Outcome without = go_on(lost_at + 3, {"--on", "n-1,n-2"});
  ASSERT_EQ(without.code, 0) << without.output;
  fs::rename(away(), node(0));
  const Outcome status = cluster.run({"status", "--job", "job"});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_FALSE(status.says("n-0")) << status.output;
  const Outcome jobs = cluster.run({"jobs"});
  EXPECT_TRUE(jobs.says("job  done")) << jobs.output;
  // Trainer 0 is there again, where the newest snapshot is of the run before.
  const Outcome with = go_on(lost_at + 4, {"--on", "n-0,n-1"});
  EXPECT_EQ(with.code, 0) << with.output;
  EXPECT_TRUE(with.says(fmt::format("continuing after pass {}", lost_at + 3))) << with.output;
}

TEST_F(LostNodes, AMissingAgentIsBroughtAgainByWhateverComesNext) {
  start_waiting_job();
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"logs"},
                                             {"up", "cluster.toml"},
                                             {"stop", "--now"},
                                             {"rm", "job", "--yes", "--discard"},
                                             {"teardown", "--yes", "--discard"}}) {
    remove_agents(1);
    const Outcome done = cluster.run(command);
    EXPECT_EQ(done.code, 0) << command.front() << done.output;
  }
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(LostNodes, RecordsThatSomebodyRemovedAreWrittenAnew) {
  start_waiting_job();
  for (const int number : {0, 1, 2}) fs::remove_all(node(number) + "/jobs/job/proc");
  const std::string record = node(1) + "/jobs/job/proc/trainer-1/pid";
  for (int tries = 0; tries < 1000 && !fs::exists(record); ++tries) ::poll(nullptr, 0, 10);
  const Outcome stopped = cluster.run({"stop", "--now", "--job", "job"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_TRUE(stopped.says("processes stopped")) << stopped.output;
  for (const int number : {0, 1, 2}) EXPECT_TRUE(processes_on(number).empty()) << number;
}

TEST_F(LostNodes, RecordsThatSomebodyRemovedEndNoJobThatIsFollowed) {
  cluster.copy_template("word2vec");
  ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300)).code, 0);
  Process job = cluster.start({"train", "--trainers", "3", "--pservers", "1", "--restarts", "5",
                               "--set", "train.passes=1000000", "--name", "job", "word2vec"});
  ASSERT_TRUE(job.prints("held-out cost ")) << job.output();
  fs::remove_all(records(0));
  ASSERT_TRUE(records_return(0, {"pserver-0", "trainer-0"})) << job.output();
  const int before = newest_pass(0, "job");
  for (int tries = 0; tries < 6000 && newest_pass(0, "job") < before + 2; ++tries)
    ::poll(nullptr, 0, 10);
  EXPECT_GE(newest_pass(0, "job"), before + 2) << job.output();
  EXPECT_EQ(cluster.run({"stop", "--job", "job"}).code, 0);
  EXPECT_EQ(job.wait(), 75) << job.output();
  EXPECT_EQ(job.output().find("removed"), std::string::npos) << job.output();
  EXPECT_EQ(job.output().find("lost"), std::string::npos) << job.output();
}

TEST_F(LostNodes, OneRecordOfAProcessThatIsRemovedIsWrittenAnew) {
  start_waiting_job();
  for (const char* const file : {"/spec", "/pid", "/incarnation"}) {
    fs::remove(records(1) + "/trainer-1" + file);
    ASSERT_TRUE(records_return(1, {"trainer-1"})) << file;
    const Outcome status = cluster.run({"status", "--job", "job"});
    EXPECT_EQ(status.code, 0) << file << status.output;
    EXPECT_TRUE(status.says("trainer-1  running")) << file << status.output;
  }
  const Outcome stopped = cluster.run({"stop", "--now", "--job", "job"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_TRUE(processes_on(1).empty());
}

TEST_F(LostNodes, EveryCommandFindsAJobWhoseRecordsWereRemoved) {
  start_waiting_job();
  const auto after_a_removal = [this](const std::vector<std::string>& command) {
    for (const int number : {0, 1, 2}) fs::remove_all(records(number));
    for (const int number : {0, 1, 2})
      EXPECT_TRUE(records_return(number, {fmt::format("trainer-{}", number)})) << number;
    return cluster.run(command);
  };
  const Outcome status = after_a_removal({"status", "--job", "job"});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_TRUE(status.says("trainer-1  running")) << status.output;
  const Outcome up = after_a_removal({"up", "cluster.toml"});
  EXPECT_EQ(up.code, 0) << up.output;
  EXPECT_FALSE(up.says("taken")) << up.output;
  const Outcome removed = after_a_removal({"rm", "job", "--yes", "--discard"});
  EXPECT_EQ(removed.code, 2) << removed.output;
  EXPECT_TRUE(removed.says("job job still runs")) << removed.output;
  const Outcome stopped = after_a_removal({"stop", "--now", "--job", "job"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_EQ(cluster.run({"rm", "job", "--yes", "--discard"}).code, 0);
  start_waiting_job();
  // A teardown needs no records.
  for (const int number : {0, 1, 2}) fs::remove_all(records(number));
  const Outcome torn_down = cluster.run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  EXPECT_TRUE(cluster.nothing_left());
}

}  // namespace
}  // namespace paddle::test
