// paddlectl check on local nodes, which call each other over loopback.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

class CheckTest : public testing::Test {
 protected:
  ~CheckTest() override {
    EXPECT_EQ(cluster.run({"teardown", "--cluster", "cluster.toml", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }
  Outcome check(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"check", "--cluster", "cluster.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cluster.run(arguments);
  }

  LocalCluster cluster{3};
};

TEST_F(CheckTest, NodesReachEachOtherAndListenNoMoreAfterwards) {
  const Outcome json = check({"--json"});
  ASSERT_EQ(json.code, 0) << json.output;
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      const std::string pair =
          fmt::format(R"({{"from": "n-{}", "to": "n-{}", "outcome": "reached")", from, to);
      EXPECT_EQ(json.says(pair), from != to) << pair << json.output;
    }
  }
  EXPECT_TRUE(json.says(R"("faults": [])")) << json.output;
  EXPECT_TRUE(cluster.all_gone()) << "neither agents nor listeners";
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(listen_on(static_cast<std::uint16_t>(cluster.first_port() + 2 * i)));
  const Outcome one = check({"--on", "n-1"});
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_FALSE(one.says("n-0"));
}

TEST_F(CheckTest, APortOfAStrangerIsNamedAndNotCalled) {
  const int port = cluster.first_port() + 2;
  const UniqueFd taken = listen_on(static_cast<std::uint16_t>(port));
  ASSERT_TRUE(taken);
  const Outcome told = check();
  EXPECT_EQ(told.code, 7) << told.output;
  EXPECT_TRUE(told.says(
      fmt::format("! node n-1: port {} on 127.0.0.1 is taken by pid {}", port, ::getpid())))
      << told.output;
  EXPECT_TRUE(told.says("  next: end that program")) << told.output;
  EXPECT_TRUE(told.says("1 fault on 1 of 3 nodes")) << told.output;
  EXPECT_TRUE(told.says("2 of 2")) << "the others are called by it too: " << told.output;
}

TEST_F(CheckTest, AJobThatRunsIsNoFault) {
  cluster.copy_template("quick_start");
  ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Process train =
      cluster.start({"train", "--trainers", "1", "--pservers", "1", "--set", "train.passes=1000000",
                     "--set", "train.saving_period=0", "quick_start"});
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  const Outcome told = check();
  EXPECT_EQ(told.code, 0) << told.output;
  EXPECT_TRUE(told.says("in use by a job")) << told.output;
}

}  // namespace
}  // namespace paddle::test
