// A node of a running job is lost, or some of what lies on it is.
#include <poll.h>
#include <signal.h>

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
  std::vector<int> processes_on(int number) const {
    std::vector<int> found;
    for (const int pid : cluster.processes()) {
      std::error_code gone;
      const auto program = fs::read_symlink(fmt::format("/proc/{}/exe", pid), gone);
      if (program.string().starts_with(node(number) + "/")) found.push_back(pid);
    }
    return found;
  }
  void lose(int number) const {
    for (int times = 0; times < 3; ++times) {
      for (const int pid : processes_on(number)) ::kill(pid, SIGKILL);
    }
    fs::remove_all(node(number));
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
  EXPECT_NE(job.output().find("error: node n-0 is lost: nothing of the cluster is there any more; "
                              "pserver-0, trainer-0 of job ran there"),
            std::string::npos)
      << job.output();
  for (const int left : {1, 2}) EXPECT_TRUE(processes_on(left).empty()) << left;
  const Outcome status = cluster.run({"status", "--job", "job"});
  EXPECT_EQ(status.code, 2) << status.output;
  EXPECT_TRUE(status.says("job is incomplete: no node has pserver-0, trainer-0")) << status.output;
  EXPECT_FALSE(status.says("never started")) << status.output;
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

}  // namespace
}  // namespace paddle::test
