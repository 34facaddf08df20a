// Jobs whose trainers are Python programs with tables on pservers: the module comes with the job,
// and what is lost or stopped goes on to the same bits.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class PythonClient : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
      GTEST_SKIP() << "there is no python3-numpy";
    cluster.folder().write("ws/train.py", TemporaryFolder::read(PYTHON_PROGRAM));
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }

  // The arguments of `paddlectl train` for a job of this name, whose program has `arguments`.
  std::vector<std::string> job(const std::string& name, const std::string& arguments,
                               const std::vector<std::string>& flags = {}) {
    cluster.folder().write("ws/job.toml",
                           fmt::format("[trainer]\ncommand = ['/usr/bin/python3', 'train.py', "
                                       "'{{{}}}']\n",
                                       arguments));
    std::vector<std::string> all{"train", "--trainers", "2", "--name", name};
    if (flags.empty() || flags[0] != "--pservers") all.insert(all.end(), {"--pservers", "2"});
    all.insert(all.end(), flags.begin(), flags.end());
    all.emplace_back("ws");
    return all;
  }
  // The rows at the end of a job.
  std::string rows(const std::string& name) const {
    return TemporaryFolder::read(cluster.folder() / fmt::format("output/{}/final.bin", name));
  }
  bool logs(const std::string& name, const std::string& role, const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      if (cluster.run({"logs", name, "--role", role}).says(text)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  void expect_clean_teardown() {
    EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }

  LocalCluster cluster{2};
};

TEST_F(PythonClient, TrainersThatAreKilledComeBackToTheSameBits) {
  const Outcome whole = cluster.run(job("whole", ""));
  ASSERT_EQ(whole.code, 0) << whole.output;
  ASSERT_FALSE(rows("whole").empty());
  for (const char* const where : {"within", "sidecar"}) {
    const Outcome killed = cluster.run(
        job(where, fmt::format(R"("dies": [1, 1, 9, "{}"])", where), {"--restarts", "3"}));
    EXPECT_EQ(killed.code, 0) << killed.output;
    EXPECT_TRUE(killed.says("restarted (1 of 3)")) << killed.output;
    EXPECT_TRUE(rows(where) == rows("whole")) << where;
  }
  EXPECT_TRUE(cluster.run({"logs", "--metrics", "whole"}).says("\"total_samples\""));
  expect_clean_teardown();
}

TEST_F(PythonClient, AStoppedJobGoesOnWithOtherPservers) {
  const Outcome whole = cluster.run(job("whole", ""));
  ASSERT_EQ(whole.code, 0) << whole.output;
  Process train = cluster.start(job("stopped", R"("until": "/nonexistent")"));
  ASSERT_TRUE(logs("stopped", "trainer-0", "pass 1: ")) << train.output();
  const Outcome stop = cluster.run({"stop"});
  EXPECT_EQ(stop.code, 0) << stop.output;
  EXPECT_EQ(train.wait(), 75) << train.output();
  const Outcome resumed = cluster.run(job("stopped", "", {"--pservers", "3", "--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(logs("stopped", "trainer-1", "joined at pass 1 batch ")) << resumed.output;
  EXPECT_TRUE(rows("stopped") == rows("whole"));
  expect_clean_teardown();
}

TEST_F(PythonClient, ALostPserverIsAnErrorAndWithRestartsTheJobGoesOn) {
  const Outcome whole = cluster.run(job("whole", ""));
  ASSERT_EQ(whole.code, 0) << whole.output;
  for (const bool restarts : {false, true}) {
    const std::string name = restarts ? "restarted" : "lost";
    const std::string go = cluster.folder() / (name + ".go");
    const std::string slow = fmt::format(R"("until": "{}")", go);
    Process train = cluster.start(
        job(name, slow,
            restarts ? std::vector<std::string>{"--restarts", "5"} : std::vector<std::string>{}));
    ASSERT_TRUE(logs(name, "trainer-0", "pass 1: ")) << train.output();
    const int pserver = cluster.find_engine("--pserver_id=1");
    ASSERT_GT(pserver, 0);
    ASSERT_EQ(::kill(pserver, SIGKILL), 0);
    cluster.folder().write(name + ".go", "");
    EXPECT_EQ(train.wait(), restarts ? 0 : 1) << train.output();
    EXPECT_TRUE(cluster.all_gone());
    if (restarts) {
      EXPECT_TRUE(rows(name) == rows("whole"));
    } else {
      EXPECT_TRUE(cluster.run({"logs", name, "--role", "trainer-1"}).says("UnreachableError"));
    }
  }
  expect_clean_teardown();
}

}  // namespace
}  // namespace paddle::test
