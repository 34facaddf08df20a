// teardown, and commands that come after it.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, LookingAtATornDownClusterBringsNothingBack) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0);
  EXPECT_EQ(run({"status", "--cluster", "c.toml"}), 2);
  EXPECT_TRUE(err_has("node n-0: it has no folder of this cluster")) << err_.str();
  EXPECT_TRUE(err_has("hint: prepare the nodes: paddlectl up")) << err_.str();
  EXPECT_EQ(run({"teardown", "--cluster", "c.toml", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

TEST_F(CommandsTest, TeardownForgetsTheClusterOfThisDirectory) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, ATeardownThatIsNotConfirmedListsEachJobOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "w"}), 0) << err_.str();
  const auto times = [&](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = err_.str().find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(run({"teardown"}), 2);
  EXPECT_TRUE(err_has("this removes from the nodes:\n  job1: ")) << err_.str();
  EXPECT_TRUE(err_has("error: nothing was removed, because it was not confirmed\n")) << err_.str();
  EXPECT_EQ(times("job1: "), 1U) << err_.str();
  EXPECT_EQ(times("job2: "), 1U) << err_.str();
  EXPECT_EQ(run({"teardown", "--json"}), 2);
  EXPECT_EQ(times("job1: "), 1U) << err_.str();
  EXPECT_EQ(times("job2: "), 1U) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes"}), 2) << "of what would be lost";
  EXPECT_EQ(times("job2: "), 1U) << err_.str();
  ask_ = [](std::string_view, bool) { return "n"; };
  EXPECT_EQ(run({"teardown"}), 2);
  EXPECT_EQ(times("job1: "), 1U) << err_.str();
  EXPECT_TRUE(err_has("error: cancelled; nothing was removed\n")) << err_.str();
  EXPECT_FALSE(nodes_[0].torn_down || nodes_[1].torn_down);
}

}  // namespace
}  // namespace paddle::cli
