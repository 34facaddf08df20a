// Two simultaneous `paddlectl train` on the same nodes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

class TwoJobs : public testing::Test {
 protected:
  void SetUp() override {
    cluster.copy_template("quick_start");
    const Outcome prepared = cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400));
    ASSERT_EQ(prepared.code, 0) << prepared.output;
    const Outcome up = cluster.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }
  void TearDown() override {
    EXPECT_TRUE(cluster.all_gone());
    const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(down.code, 0) << down.output;
    EXPECT_TRUE(cluster.nothing_left());
  }
  Process start(const std::string& name, const std::string& output) {
    return cluster.start({"train", "--trainers", "2", "--pservers", "1", "--name", name, "--output",
                          output, "quick_start"});
  }

  LocalCluster cluster{2};
};

TEST_F(TwoJobs, OfOneNameOneTrainsAndTheOtherLeavesItAlone) {
  for (const char* name : {"first", "second", "third"}) {
    Process a = start(name, "a");
    Process b = start(name, "b");
    const auto a_code = a.wait();
    const auto b_code = b.wait();
    Process& winner = a_code == 0 ? a : b;
    Process& loser = a_code == 0 ? b : a;
    EXPECT_EQ((a_code == 0 ? a_code : b_code).value_or(-1), 0) << winner.output();
    EXPECT_EQ((a_code == 0 ? b_code : a_code).value_or(-1), 2) << loser.output();
    EXPECT_EQ(held_out_costs(winner.output()).size(), 3U) << winner.output();
    EXPECT_NE(loser.output().find(fmt::format("a job named '{}'", name)), std::string::npos)
        << loser.output();
    EXPECT_NE(loser.output().find("hint: "), std::string::npos) << loser.output();
  }
}

TEST_F(TwoJobs, OfTwoNamesBothTrainOnPortsOfTheirOwn) {
  for (const char* round : {"1", "2", "3"}) {
    Process a = start(std::string("a") + round, "a");
    Process b = start(std::string("b") + round, "b");
    EXPECT_EQ(a.wait().value_or(-1), 0) << a.output();
    EXPECT_EQ(b.wait().value_or(-1), 0) << b.output();
    EXPECT_EQ(held_out_costs(a.output()).size(), 3U) << a.output();
    EXPECT_EQ(held_out_costs(b.output()).size(), 3U) << b.output();
  }
}

}  // namespace
}  // namespace paddle::test
