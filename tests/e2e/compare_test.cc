// Tagged runs of a workspace under git, compared where they were started and on another machine.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/price_network.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class ComparedRuns : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines = "area,price,town,country\n";
    for (int i = 1; i < 200; ++i)
      lines +=
          fmt::format("0.{:03},{:.3f},t{},x\n", i * 37 % 101, 0.5 + i * 37 % 101 * 0.002, i % 23);
    cluster_.folder().write("w/data/train.csv", lines);
    cluster_.folder().write("w/data/test.csv", lines);
    cluster_.folder().write(
        "w/job.toml",
        std::string("[data]\ntrain = \"data/train.csv\"\ntest = \"data/test.csv\"\n") +
            "format = \"csv\"\nheader = true\n" +
            "columns = [\"area\", \"price\", \"town\", \"country\"]\n" + kPriceNetwork +
            "[optimizer]\nlearning_rate = 0.01\n[train]\npasses = 2\nbatch_size = 10\n");
    const Outcome up = cluster_.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }
  bool commit_workspace() {
    const std::string script =
        "git init -q -b main && git add . && git -c user.name=n -c user.email=e commit -qm first";
    Process git({"/usr/bin/env", "-C", cluster_.folder() / "w", "sh", "-c", script},
                cluster_.folder() / "git.txt");
    return git.wait(std::chrono::seconds(30)) == 0;
  }
  Outcome train(const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--name", name, "--trainers", "1", "--tag", "lr"});
    more.emplace_back("w");
    return cluster_.run(more);
  }

  LocalCluster cluster_{1};
};

TEST_F(ComparedRuns, ShowTheirDifferencesHereAndOnAnotherMachine) {
  const bool has_git = commit_workspace();
  const Outcome first = train("slow", {"--note", "the rate of before"});
  ASSERT_EQ(first.code, 0) << first.output;
  cluster_.folder().write("w/job.toml",
                          TemporaryFolder::read(cluster_.folder() / "w/job.toml") + "# edited\n");
  const Outcome second = train("fast", {"--set", "optimizer.learning_rate=0.05"});
  ASSERT_EQ(second.code, 0) << second.output;

  const Outcome jobs = cluster_.run({"jobs", "--tag", "lr"});
  EXPECT_TRUE(jobs.says("the rate of before")) << jobs.output;
  const Outcome here = cluster_.run({"compare", "--tag", "lr", "--html", "page.html"});
  EXPECT_EQ(here.code, 0) << here.output;
  EXPECT_TRUE(here.says("optimizer.learning_rate  0.05")) << here.output;
  EXPECT_TRUE(here.says("rmse, on held-out data, by batches")) << here.output;
  EXPECT_TRUE(here.says(" *")) << "the best is marked: " << here.output;
  EXPECT_TRUE(fs::exists(cluster_.folder() / "page.html"));

  // Only the nodes know of the jobs.
  const Outcome there = cluster_.run({"compare", "--tag", "lr", "--output", "elsewhere/output"});
  EXPECT_EQ(there.code, 0) << there.output;
  EXPECT_TRUE(there.says("optimizer.learning_rate  0.01")) << "by start: " << there.output;
  EXPECT_TRUE(there.says("the rate of before")) << there.output;
  if (has_git) {
    EXPECT_TRUE(there.says(" (main)")) << there.output;
    EXPECT_TRUE(there.says(" (main, with changes)")) << there.output;
  }

  const Outcome down = cluster_.run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(down.code, 0) << down.output;
  const Outcome after = cluster_.run({"compare", "slow", "fast", "--csv", "-"});
  EXPECT_EQ(after.code, 0) << after.output;
  EXPECT_TRUE(after.says("\nslow,done,lr,the rate of before,")) << after.output;
}

}  // namespace
}  // namespace paddle::test
