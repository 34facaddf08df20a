// `paddlectl sweep` with nodes in memory.
#include <map>
#include <utility>

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
              "\"pass\": 0, \"cause\": null}\n"))
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

TEST_F(SweepCommandTest, ASweepWithOtherOptionsIsAnother) {
  ASSERT_EQ(sweep(), 0) << err_.str();
  const std::vector<std::pair<std::vector<std::string>, std::string>> others{
      {{"--trainers", "1"}, "--trainers 2 -> 1"},
      {{"--pservers", "1"}, "--pservers 2 -> 1"},
      {{"--from", "output/lr-001/pass-00000"}, "--from none -> output/lr-001/pass-00000"},
      {{"--env", "A=b"}, "--env A none -> set"}};
  for (const auto& [options, change] : others) {
    EXPECT_EQ(sweep(options), 2) << change;
    EXPECT_TRUE(err_has("lr-000 was started with other settings than the sweep now has: " + change))
        << err_.str();
  }
  EXPECT_EQ(sweep({"--restarts", "3"}), 0) << "no result changes: " << err_.str();
  write("w/data/train-00000", "0\ta b\n");
  EXPECT_EQ(sweep(), 2);
  EXPECT_TRUE(err_has("sweep now has: data/train-00000 has different content")) << err_.str();
}

TEST_F(SweepCommandTest, TheLastLineHasAllOptionsThatChangeTheResult) {
  ASSERT_EQ(sweep({"--env", "A=secret", "--restarts", "3", "--stall-restarts-after", "9"}), 0)
      << err_.str();
  EXPECT_TRUE(
      out_has("\npaddlectl train --restarts 3 --stall-restarts-after 9 --env A --set "
              "train.best=cost --set optimizer.learning_rate=0.2 w\n"))
      << out_.str();
  EXPECT_FALSE(out_has("secret"));
  EXPECT_TRUE(err_has("the values of --env are not printed")) << err_.str();
  EXPECT_EQ(sweep({"--env", "B=secret"}), 2);
  EXPECT_TRUE(err_has("--env B none -> set")) << err_.str();
}

// Somebody else takes the name of the last trial while the first one runs.
TEST_F(SweepCommandTest, AJobOfSomebodyElseIsNotTakenOver) {
  for (const bool runs : {false, true}) {
    const std::string name = runs ? "b" : "a";
    write(name + ".toml",
          "[[parameter]]\nkey = \"optimizer.learning_rate\"\nvalues = [0.1, 0.2, 0.3]\n");
    bool is_taken = false;
    on_pause_ = [&] {
      if (starts_[name + "-000"] == 0 || std::exchange(is_taken, true)) return;
      trainer_state_ = runs ? ProcessState::kRunning : ProcessState::kExited;
      EXPECT_EQ(run({"train", "--name", name + "-002", "--note", "mine", "--tag", "mine",
                     "--detach", "w"}),
                0)
          << err_.str();
      trainer_state_ = ProcessState::kExited;
    };
    EXPECT_EQ(run({"sweep", name + ".toml", "w"}), 2);
    EXPECT_TRUE(err_has("job " + name + "-002 on the nodes is no trial of this sweep"))
        << err_.str();
    EXPECT_EQ(starts_[name + "-002"], 4) << "it was resumed";
    on_pause_ = {};
    ASSERT_EQ(run({"jobs", "--tag", "mine", "--json"}), 0);
    EXPECT_TRUE(out_has("\"job\": \"" + name + "-002\"")) << out_.str();
  }
}

TEST_F(SweepCommandTest, TrialsThatAnotherSweepHasEndedAreTakenAsEnded) {
  write("lr.toml", "[[parameter]]\nkey = \"optimizer.learning_rate\"\nvalues = [0.1, 0.2, 0.3]\n");
  bool has_run = false;
  on_pause_ = [&] {
    if (starts_["lr-000"] == 0 || std::exchange(has_run, true)) return;
    EXPECT_EQ(sweep(), 0) << err_.str();
  };
  EXPECT_EQ(sweep(), 0) << err_.str();
  EXPECT_TRUE(err_has("lr-001: another command has started it")) << err_.str();
  EXPECT_TRUE(err_has("lr-001 done: cost 0.25")) << err_.str();
  EXPECT_EQ(starts_["lr-001"], 4);
  EXPECT_EQ(starts_["lr-002"], 4);
  EXPECT_TRUE(out_has("best: lr-001")) << out_.str();
}

TEST_F(SweepCommandTest, ResultsOfAnotherRunAreNotRanked) {
  ASSERT_EQ(sweep(), 0) << err_.str();
  ASSERT_EQ(run({"rm", "--yes", "--discard", "lr-000", "lr-001", "lr-002"}), 0) << err_.str();
  costs_["lr-002"] = 0.125;
  ASSERT_EQ(sweep({"--output", "other"}), 0) << err_.str();
  ASSERT_EQ(run({"compare", "--tag", "sweep=lr", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has("\"cost\": {\"best\": [\"lr-002\"]")) << out_.str();
  ASSERT_EQ(sweep(), 0) << err_.str();
  EXPECT_TRUE(out_has("best: lr-002, cost 0.125")) << out_.str();
}

TEST_F(SweepCommandTest, SaysThatAllTrialsFailedAndWhy) {
  trainer_exit_ = 6;
  EXPECT_EQ(sweep({"--json"}), 1);
  EXPECT_TRUE(err_has("3 of 3 trials failed: lr-000, lr-001, lr-002")) << err_.str();
  EXPECT_FALSE(err_has("no trial has a value")) << err_.str();
  EXPECT_TRUE(out_has("\"pass\": null, \"cause\": \"trainer-")) << out_.str();
}

TEST_F(SweepCommandTest, EachValueIsCheckedBeforeTheFirstTrialStarts) {
  write("lr.toml",
        "[[parameter]]\nkey = \"data.train\"\nvalues = [\"data/train-*\", \"data/no-*\"]\n");
  EXPECT_NE(sweep(), 0);
  EXPECT_TRUE(err_has("lr-001 (data.train=\"data/no-*\"): ")) << err_.str();
  EXPECT_TRUE(starts_.empty());
  write("lr.toml",
        "method = \"random\"\ntrials = 2\n[[parameter]]\nkey = \"train.batch_size\"\n"
        "uniform = [8, 64]\n");
  EXPECT_EQ(sweep(), 2);
  EXPECT_TRUE(err_has("the key takes whole numbers: integer = [1, 8]")) << err_.str();
  EXPECT_EQ(run({"sweep", "nope.toml", "w"}), 2);
  EXPECT_TRUE(err_has("paddlectl sweep sweep.toml .")) << err_.str();
}

TEST_F(SweepCommandTest, APageThatCannotBeWrittenHidesNothing) {
  write("output/lr.html/in-the-way", "");
  EXPECT_NE(sweep(), 0);
  EXPECT_TRUE(out_has("best: lr-001")) << out_.str();
  EXPECT_TRUE(out_has("paddlectl train --set train.best=cost --set optimizer.learning_rate=0.2 w"))
      << out_.str();
  EXPECT_TRUE(err_has("lr.html")) << err_.str();
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

// A teardown ends the trials before it removes the folders.
TEST_F(SweepCommandTest, StartsNoTrialWhileTheNodesAreTornDown) {
  trainer_state_ = ProcessState::kRunning;
  int pauses = 0;
  on_pause_ = [&] {
    ++pauses;
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) {
        if (pauses != 2) continue;
        process.state = ProcessState::kExited;
        process.stop_ordered = true;
        process.exit_code = 130;
      }
      node.torn_down_after = pauses > 4 ? 1 : 0;
    }
  };
  EXPECT_EQ(sweep(), 130) << err_.str();
  EXPECT_TRUE(err_has("lr-000 stopped")) << err_.str();
  EXPECT_TRUE(err_has("as after paddlectl teardown")) << err_.str();
  EXPECT_EQ(starts_["lr-002"], 0);
}

TEST_F(SweepCommandTest, ATrialThatHangsIsNamedOnce) {
  trainer_state_ = ProcessState::kRunning;
  for (FakeNode& node : nodes_) {
    node.on_start = [this](FakeNode& fake, ProcessStatus& status) {
      started(fake, status);
      const bool is_pserver = status.name.starts_with("pserver-");
      status.reports = true;
      status.progress.emplace();
      status.progress->batch = 7;
      status.progress->unix_ms = fake.usage.unix_ms - (is_pserver ? 500 : 161'000);
      if (is_pserver) status.progress->awaited = {"trainer-1"};
    };
  }
  int pauses = 0;
  on_pause_ = [&] { interrupted_ = ++pauses == 6; };
  EXPECT_EQ(sweep(), 75) << err_.str();
  const std::string note = "lr-000 is stalled: trainer-1 makes no progress";
  EXPECT_TRUE(err_has(note)) << err_.str();
  EXPECT_EQ(err_.str().find(note), err_.str().rfind(note)) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
