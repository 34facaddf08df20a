// `paddlectl sweep` with nodes in memory.
#include <map>

#include <fmt/format.h>

#include "cli/watch/metrics_line.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class SweepCommandTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    write("lr.toml",
          "at_once = 2\n[[parameter]]\nkey = \"optimizer.learning_rate\"\n"
          "values = [0.1, 0.2, 0.3]\n");
    for (FakeNode& node : nodes_) {
      node.on_start = [this](FakeNode& fake, ProcessStatus& status) {
        started(fake, status);
        ++starts_[status.job];
        if (status.name != "trainer-0" || !costs_.contains(status.job)) return;
        fake.files[metrics_path(status.log)] = fmt::format(
            "{{\"kind\":\"pass\",\"pass\":0,\"batch\":9,\"cost\":1,\"unix_ms\":1}}\n"
            "{{\"kind\":\"test\",\"pass\":0,\"batch\":9,\"samples\":1,\"cost\":{},\"unix_ms\":2}}"
            "\n",
            costs_[status.job]);
      };
    }
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  int sweep(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"sweep", "lr.toml", "w"});
    return run(more);
  }

  std::map<std::string, double> costs_{{"lr-000", 0.5}, {"lr-001", 0.25}, {"lr-002", 0.75}};
  std::map<std::string, int> starts_;  // processes, by job
};

TEST_F(SweepCommandTest, ADryRunListsTheTrialsAndAsksNoNode) {
  for (FakeNode& node : nodes_) node.unreachable = true;
  ASSERT_EQ(sweep({"--dry-run"}), 0) << err_.str();
  EXPECT_TRUE(out_has("lr-000                      0.1")) << out_.str();
  EXPECT_TRUE(out_has("lr-002                      0.3")) << out_.str();
  ASSERT_EQ(sweep({"--dry-run", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has("{\"job\": \"lr-001\", \"optimizer.learning_rate\": \"0.2\"}")) << out_.str();
}

TEST_F(SweepCommandTest, RanksTheTrialsAndStartsNoneTwice) {
  ASSERT_EQ(sweep({"--tag", "mine", "--json"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has("{\"job\": \"lr-001\", \"state\": \"done\", \"settings\": "
              "[\"optimizer.learning_rate=0.2\"], \"figure\": \"cost\", \"value\": 0.25, "
              "\"pass\": 0}\n"))
      << out_.str();
  EXPECT_TRUE(out_has("\"best\": \"lr-001\"}\n")) << out_.str();
  EXPECT_EQ(starts_["lr-002"], 4) << "two trainers and two pservers";
  ASSERT_EQ(run({"jobs", "--tag", "sweep=lr", "--tag", "mine", "--json"}), 0);
  EXPECT_TRUE(out_has("\"note\": \"optimizer.learning_rate=0.3\"")) << out_.str();
  fs::remove_all(folder_ + "/output");
  ASSERT_EQ(sweep(), 0) << "only the nodes have the state: " << err_.str();
  EXPECT_EQ(starts_["lr-002"], 4);
  EXPECT_TRUE(err_has("3 of 3 trials are on the nodes already")) << err_.str();
  EXPECT_TRUE(out_has("best: lr-001, cost 0.25 in pass 1; its files are in output/lr-001"))
      << out_.str();
}

TEST_F(SweepCommandTest, ASweepBecomesLongerButNotAnother) {
  ASSERT_EQ(sweep(), 0) << err_.str();
  write("lr.toml",
        "[[parameter]]\nkey = \"optimizer.learning_rate\"\nvalues = [0.1, 0.2, 0.3, 0.4]\n");
  costs_["lr-003"] = 0.125;
  ASSERT_EQ(sweep(), 0) << err_.str();
  EXPECT_TRUE(out_has("best: lr-003")) << out_.str();
  EXPECT_EQ(starts_["lr-000"], 4);
  write("w/job.toml", std::string("seed = 5\n") + kJob);
  EXPECT_EQ(sweep(), 2);
  EXPECT_TRUE(
      err_has("lr-000 was started with other settings than the sweep now has: seed none "
              "-> 5"))
      << err_.str();
}

TEST_F(SweepCommandTest, ASweepWithoutTheFigureSaysSo) {
  costs_.clear();
  EXPECT_EQ(sweep(), 1);
  EXPECT_TRUE(err_has("no trial has a value of 'cost'")) << err_.str();
}

TEST_F(SweepCommandTest, ASecondCtrlCEndsTheTrialsAtOnce) {
  trainer_state_ = ProcessState::kRunning;
  for (FakeNode& node : nodes_) {
    node.asked_exit = -1;
    node.ended_exit = 130;
  }
  int pauses = 0;
  on_pause_ = [&] { interrupted_ = ++pauses > 3; };
  EXPECT_EQ(sweep(), 130) << err_.str();
  EXPECT_TRUE(
      err_has("asking lr-000, lr-001 to stop and to save; Ctrl-C again ends them "
              "immediately\n"))
      << err_.str();
  EXPECT_TRUE(err_has("interrupted: 0 of 3 trials have ended")) << err_.str();
  EXPECT_TRUE(running().empty());
  EXPECT_EQ(starts_["lr-002"], 0);
}

TEST_F(SweepCommandTest, ATeardownElsewhereEndsIt) {
  trainer_state_ = ProcessState::kRunning;
  int pauses = 0;
  on_pause_ = [&] {
    for (FakeNode& node : nodes_) node.torn_down_after = ++pauses > 4 ? 1 : 0;
  };
  EXPECT_EQ(sweep(), 130);
  EXPECT_TRUE(err_has("has no folder of this cluster any more, as after paddlectl teardown"))
      << err_.str();
}

}  // namespace
}  // namespace paddle::cli
