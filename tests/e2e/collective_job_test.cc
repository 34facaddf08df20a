// A job without pservers, through paddlectl on a cluster of local nodes.
#include <chrono>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

constexpr const char* kJob = R"([data]
train = "data/train.txt-*"
test = "data/test.txt"
format = "ngram"
dictionary = "words.txt"
ngram = 2
[[layer]]
name = "word"
type = "embedding"
input = ["word0"]
size = 8
vocabulary = "dictionary"
[[layer]]
name = "output"
type = "fc"
input = ["word"]
size = "dictionary"
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
[optimizer]
method = "adam"
[strategy]
dense = "collective"
[train]
passes = 3
batch_size = 8
log_period = 10
)";

class CollectiveJob : public testing::Test {
 protected:
  void SetUp() override {
    const TemporaryFolder& folder = cluster.folder();
    folder.write("w/job.toml", kJob);
    std::string words = "<s>\n<e>\n";
    for (int i = 0; i < 20; ++i) words += fmt::format("w{}\n", i);
    folder.write("w/words.txt", words + "<unk>\n");
    for (int file = 0; file < 3; ++file) {
      std::string text;
      for (int i = 0; i < 300 * (file + 1); ++i) {
        text += fmt::format("w{} w{} w{}\n", i % 20, (i + 1) % 20, (i + file) % 20);
      }
      folder.write(fmt::format("w/data/train.txt-{:05}", file), text);
    }
    folder.write("w/data/test.txt", "w1 w2 w3\n");
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }
  Outcome train(std::vector<std::string> more) {
    more.insert(more.begin(), "train");
    more.emplace_back("w");
    return cluster.run(more);
  }
  // The word's table goes to pservers.
  void make_sparse() {
    std::string job = kJob;
    job.insert(job.find("vocabulary"), "weight = { sparse = true }\n");
    cluster.folder().write("w/job.toml", job);
  }
  std::string values(const std::string& job, int pass) const {
    return TemporaryFolder::read(cluster.folder() /
                                 fmt::format("output/{}/pass-{:05}/_output.w0", job, pass));
  }
  void expect_the_bits_of_sync(const std::string& pservers) {
    const Outcome group = train({"--trainers", "3", "--pservers", pservers, "--name", "group"});
    ASSERT_EQ(group.code, 0) << group.output;
    const Outcome sync = train(
        {"--trainers", "3", "--pservers", "2", "--name", "sync", "--set", "strategy.dense=sync"});
    ASSERT_EQ(sync.code, 0) << sync.output;
    EXPECT_FALSE(values("group", 2).empty());
    EXPECT_EQ(values("group", 2), values("sync", 2));
    expect_nothing_left();
  }
  int trainer(int id) const { return cluster.find_engine(fmt::format("--trainer_id={}", id)); }
  // The others stay, or all processes are started again.
  void expect_the_bits_after_a_loss(const std::string& pservers, const std::string& process,
                                    const std::string& flag, int count = 30,
                                    bool others_stay = false) {
    const std::string passes =  // longer than it takes to kill one
        fmt::format("train.passes={}", count);
    const Outcome whole =
        train({"--trainers", "3", "--pservers", pservers, "--name", "whole", "--set", passes});
    ASSERT_EQ(whole.code, 0) << whole.output;
    Process job = cluster.start({"train", "--trainers", "3", "--pservers", pservers, "--name",
                                 "lost", "--set", passes, "--restarts", "3", "w"});
    ASSERT_TRUE(job.prints("pass 2 of", std::chrono::seconds(100))) << job.output();
    const int victim = cluster.find_engine(flag);
    ASSERT_GT(victim, 0);
    const std::vector<int> before{trainer(0), trainer(1), trainer(2)};
    ASSERT_EQ(::kill(victim, SIGKILL), 0);
    if (others_stay) {
      ASSERT_NO_FATAL_FAILURE(expect_back(victim, before));
    }
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_NE(job.output().find(process + " on n-1 was killed by signal 9"), std::string::npos)
        << job.output();
    EXPECT_FALSE(values("whole", count - 1).empty());
    EXPECT_EQ(values("lost", count - 1), values("whole", count - 1));
    expect_nothing_left();
  }
  void expect_back(int victim, const std::vector<int>& before) {
    ASSERT_EQ(before[1], victim);
    const TimePoint at = std::chrono::steady_clock::now();
    Outcome log;
    Duration took{};
    while (!log.says("all trainers go back to their savepoints of step") &&
           took < std::chrono::seconds(5)) {
      log = cluster.run({"logs", "lost", "--role", "trainer-1", "--grep", "savepoints of step"});
      took = std::chrono::steady_clock::now() - at;
    }
    EXPECT_TRUE(log.says("all trainers go back to their savepoints of step")) << log.output;
    std::printf("back within %.2f s\n", std::chrono::duration<double>(took).count());
    EXPECT_EQ(trainer(0), before[0]);
    EXPECT_NE(trainer(1), before[1]);
    EXPECT_EQ(trainer(2), before[2]);
  }
  void expect_nothing_left() {
    const Outcome gone = cluster.run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(gone.code, 0) << gone.output;
    EXPECT_TRUE(cluster.nothing_left());
  }

  LocalCluster cluster{3};
};

TEST_F(CollectiveJob, EndsWithTheBitsOfPservers) {
  expect_the_bits_of_sync("0");
}

TEST_F(CollectiveJob, WithATableEndsWithTheBitsOfPservers) {
  make_sparse();
  expect_the_bits_of_sync("2");
}

TEST_F(CollectiveJob, LocalSgdNeedsNoPservers) {
  const auto run = [&](const char* pservers, const char* dense) {
    return train({"--trainers", "3", "--pservers", pservers, "--name", "local", "--set",
                  fmt::format("strategy.dense={}", dense)});
  };
  const auto fails = [&](const Outcome& job, const char* why) {
    EXPECT_EQ(job.code, 2);
    EXPECT_NE(job.output.find(why), std::string::npos) << job.output;
  };
  fails(run("1", "local_sgd"), "dense = \"local_sgd\" leaves 1 pserver without work");
  fails(run("0", "sync"), "\"local_sgd\"");
  const Outcome job = run("0", "local_sgd");
  ASSERT_EQ(job.code, 0) << job.output;
  EXPECT_FALSE(values("local", 2).empty());
  make_sparse();
  fails(run("0", "local_sgd"), "'local_sgd' has no place for the sparse table of layer 'word'");
  expect_nothing_left();
}

TEST_F(CollectiveJob, OneThatIsLostComesBackWhileTheOthersStay) {
  expect_the_bits_after_a_loss("0", "trainer-1", "--trainer_id=1", 30, true);
}

TEST_F(CollectiveJob, WithATableGoesOnAfterTheLossOfAPserver) {
  make_sparse();
  expect_the_bits_after_a_loss("2", "pserver-1", "--pserver_id=1");
}

// All trainers of this machine are on one node.
TEST_F(CollectiveJob, NodeGroupsGoOnAfterALoss) {
  std::string job = kJob;
  job.replace(job.find("dense = \"collective\""), 20, "node_groups = true");
  cluster.folder().write("w/job.toml", job);
  // A step waits for the node, for the pservers and for the node again.
  expect_the_bits_after_a_loss("2", "trainer-1", "--trainer_id=1", 9);
}

TEST_F(CollectiveJob, StatusTellsWhoWaitsForWhom) {
  Process job = cluster.start({"train", "--trainers", "3", "--pservers", "0", "--name", "held",
                               "--set", "train.passes=100000", "w"});
  ASSERT_TRUE(job.prints("pass 2 of", std::chrono::seconds(100))) << job.output();
  const int held = cluster.find_engine("--trainer_id=1");
  ASSERT_GT(held, 0);
  ASSERT_EQ(::kill(held, SIGSTOP), 0);
  const auto told = [&](const std::string& output) {
    // Trainer 0 may be saving.
    const bool both =
        output.find("trainer-0 and trainer-2 wait for trainer-1") != std::string::npos;
    const bool one = output.find("trainer-2 waits for trainer-1") != std::string::npos;
    return (both || one) && output.find("trainer-1 on n-1") != std::string::npos;
  };
  const TimePoint end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Outcome status;
  do {
    status = cluster.run({"status"});
  } while (!told(status.output) && std::chrono::steady_clock::now() < end);
  EXPECT_TRUE(told(status.output)) << status.output;
  ASSERT_EQ(::kill(held, SIGCONT), 0);
  EXPECT_EQ(cluster.run({"stop", "--now"}).code, 0);
  expect_nothing_left();
}

}  // namespace
}  // namespace paddle::test
