// paddlectl and what it starts on nodes where ulimit allows little: no signal, no abort.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

class ULimits : public testing::Test {
 protected:
  // Local nodes have the limits of paddlectl. Root may not raise them again.
  Outcome run(const std::string& limits, const std::string& command) {
    const std::string said = cluster.folder() / fmt::format("said-{}", ++runs_);
    Process process(
        {"/bin/sh", "-c",
         fmt::format("cd {} && {} && exec {}{} {}", cluster.folder().path(), limits,
                     ::geteuid() == 0 ? kWithoutRaising : "", PADDLECTL_PROGRAM, command)},
        said);
    return {process.wait().value_or(-1), process.output()};
  }

  static constexpr const char* kWithoutRaising =
      "setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource ";
  LocalCluster cluster{2};
  int runs_ = 0;
};

TEST_F(ULimits, AFileThatMayNotGrowIsNamed) {
  const Outcome up = run("ulimit -f 1", "up cluster.toml");
  EXPECT_EQ(up.code, 7) << up.output;
  EXPECT_TRUE(up.says("File too large") || up.says("the agent is incomplete")) << up.output;
  EXPECT_FALSE(up.says("check that `ssh`")) << up.output;
}

TEST_F(ULimits, ALittleStackOrMemoryEndsNoProgramWithoutAWord) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs more memory and descriptors than these limits allow";
#endif
  for (const char* const limits : {"ulimit -s 64", "ulimit -s 400", "ulimit -v 60000",
                                   "ulimit -v 150000", "ulimit -n 8", "ulimit -n 20"}) {
    const Outcome up = run(limits, "up cluster.toml");
    EXPECT_TRUE(up.code == 0 || up.code == 7) << limits << " " << up.code << up.output;
    if (up.code == 7) {
      EXPECT_TRUE(up.says("hint: ")) << limits << up.output;
    }
  }
}

TEST_F(ULimits, AJobThatMayDoLittleIsEndedByName) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs more memory and descriptors than these limits allow";
#endif
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  cluster.copy_template("word2vec");
  ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(100)).code, 0);
  for (const char* const limits : {"ulimit -s 64", "ulimit -s 400", "ulimit -v 150000",
                                   "ulimit -n 20", "ulimit -n 28", "ulimit -n 100"}) {
    const Outcome train =
        run(limits, fmt::format("train --trainers 2 --pservers 2 --set train.passes=1 --restarts 1 "
                                "--name job{} word2vec",
                                runs_));
    EXPECT_TRUE(train.code == 0 || train.code == 7) << limits << " " << train.code << train.output;
    if (train.code == 7) {
      EXPECT_TRUE(train.says("hint: ")) << limits << train.output;
    }
    EXPECT_FALSE(train.says("killed by signal")) << limits << train.output;
  }
}

}  // namespace
}  // namespace paddle::test
