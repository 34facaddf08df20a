// Sweeps of real jobs: ranked as `compare` ranks them, killed and continued, stopped by Ctrl-C,
// with failing trials, with halving, and with values that no shell would leave alone.
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/price_network.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

// The rows of the table at the end, without the durations.
std::vector<std::string> rows_of(const std::string& output, const std::string& sweep) {
  std::vector<std::string> rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(sweep + "-0") || line.find("  ") == std::string::npos) continue;
    line = line.substr(sweep.size(), line.rfind("  ") - sweep.size());
    if (line.find(" done ") != std::string::npos) rows.push_back(line);
  }
  return rows;
}

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines = "area,price\n";
    for (int i = 1; i < 200; ++i)
      lines += fmt::format("0.{:03},{:.3f}\n", i * 37 % 101, 0.5 + i * 37 % 101 * 0.002);
    write("w/data/train.csv", lines);
    write("w/data/test.csv", lines);
    write("w/job.toml",
          std::string("[data]\ntrain = \"data/train.csv\"\ntest = \"data/test.csv\"\n") +
              "format = \"csv\"\nheader = true\ncolumns = [\"area\", \"price\"]\n" + kPriceNetwork +
              "[optimizer]\nlearning_rate = 0.01\n[train]\npasses = 2\nbatch_size = 10\n");
    for (const char* const name : {"lr", "again"})
      write(std::string(name) + ".toml",
            "at_once = 2\n[[parameter]]\nkey = \"optimizer.learning_rate\"\n"
            "values = [0.001, 0.05, 0.01]\n"
            "[[parameter]]\nkey = \"train.batch_size\"\nvalues = [10, 20]\n");
    const Outcome up = cluster_.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }
  void TearDown() override {
    EXPECT_EQ(cluster_.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster_.nothing_left());
  }
  void write(const std::string& file, const std::string& text) {
    cluster_.folder().write(file, text);
  }
  static std::vector<std::string> sweep(const std::string& file, std::vector<std::string> more = {},
                                        const std::string& workspace = "w") {
    std::vector<std::string> all{"sweep", file, "--trainers", "1"};
    all.insert(all.end(), more.begin(), more.end());
    all.push_back(workspace);
    return all;
  }
  // A job whose trainer is a script; `values` are the values of trainer.command.
  void write_own(const std::string& head, const std::string& values, const std::string& script) {
    write("own/job.toml", "seed = 1\n[trainer]\ncommand = [\"sh\", \"train.sh\", \"x\"]\n");
    write("own/train.sh", script);
    write("own.toml", head + "figure = \"accuracy\"\n" + values);
  }
  std::string metrics_of(const std::string& job) const {
    return TemporaryFolder::read(cluster_.folder() / ("output/" + job + "/node_0/metrics.jsonl")) +
           TemporaryFolder::read(cluster_.folder() / ("output/" + job + "/node_1/metrics.jsonl"));
  }

  // Whether, within a deadline, the job has metrics on a node.
  bool trains(const std::string& job) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      for (const auto& node : fs::directory_iterator(cluster_.folder() / "nodes/t")) {
        for (const int i : {0, 1}) {
          if (fs::exists(node.path() / fmt::format("jobs/{}/node_{}/metrics.jsonl", job, i)))
            return true;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  LocalCluster cluster_{2};
};

TEST_F(SweepTest, MistakesAreNamedInTheFileBeforeAnythingIsStarted) {
  const std::string rate = "[[parameter]]\nkey = \"optimizer.learning_rate\"\n";
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"[[parameter]]\nkey = \"optimizer.lerning_rate\"\nvalues = [1]\n",
       "m.toml:2:7: unknown key 'lerning_rate', did you mean 'learning_rate'?\n"
       "  key = \"optimizer.lerning_rate\"\n        ^"},
      {rate + "values = [0.1, -1]\n",
       "m.toml:3:10: optimizer.learning_rate=-1: 'learning_rate' is -1"},
      {rate + "values = [\"fast\"]\n", "m.toml:3:10: optimizer.learning_rate=\"fast\": "},
      {"figure = \"auc\"\n" + rate + "values = [0.1]\n", "m.toml:1:10: "},
      {rate + "values = [0.1]\n[[parameter]]\nkey = \"train.passes\"\nvalues = [3]\n",
       "m.toml:5:7: --set train.passes gives this key another value"}};
  for (const auto& [text, wanted] : mistakes) {
    write("m.toml", text);
    const Outcome swept = cluster_.run(sweep("m.toml", {"--set", "train.passes=3"}));
    EXPECT_EQ(swept.code, 2) << text;
    EXPECT_TRUE(swept.says(wanted)) << wanted << "\n" << swept.output;
  }
  // A figure is checked too if the job holds out no data.
  write("trained/data/train.csv", "area,price\n0.1,0.5\n0.2,0.9\n");
  write("trained/job.toml",
        std::string("[data]\ntrain = \"data/train.csv\"\nformat = \"csv\"\nheader = true\n") +
            "columns = [\"area\", \"price\"]\n" + kPriceNetwork + "[train]\npasses = 1\n");
  write("m.toml", "figure = \"auc\"\n" + rate + "values = [0.1]\n");
  const Outcome unknown = cluster_.run(sweep("m.toml", {}, "trained"));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(unknown.says("m.toml:1:10: tests of this job have no 'auc'")) << unknown.output;
  EXPECT_FALSE(cluster_.run({"jobs"}).says("m-000"));
}

TEST_F(SweepTest, AGridIsRankedAsCompareRanksItAndItsDataIsPushedOnce) {
  const Outcome first = cluster_.run(sweep("lr.toml"));
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_TRUE(first.says("lr: 6 trials by cost; Ctrl-C saves and stops the trials that run"));
  EXPECT_TRUE(first.says("pushed 3 files to 2 nodes")) << first.output;
  EXPECT_EQ(count_of(first.output, "; pushed 2 files to 2 nodes, "), 5U)
      << "job.toml, to both nodes: " << first.output;
  EXPECT_TRUE(first.says("best: lr-002, cost ")) << first.output;
  EXPECT_TRUE(first.says(
      "paddlectl train --trainers 1 --set train.best=cost --set optimizer.learning_rate=0.05 --set "
      "train.batch_size=10 w"))
      << first.output;
  const auto rows = rows_of(first.output, "lr");
  ASSERT_EQ(rows.size(), 6U) << first.output;
  EXPECT_TRUE(rows[0].starts_with("-002 ")) << rows[0];
  EXPECT_TRUE(rows[5].starts_with("-001 ")) << rows[5];

  const Outcome compared = cluster_.run({"compare", "--tag", "sweep=lr", "--json"});
  EXPECT_TRUE(compared.says("\"cost\": {\"best\": [\"lr-002\"]")) << compared.output;
  EXPECT_TRUE(fs::exists(cluster_.folder() / "output/lr.html"));
  EXPECT_TRUE(fs::exists(cluster_.folder() / "output/lr-002/pass-00001/MANIFEST"));
  EXPECT_FALSE(fs::exists(cluster_.folder() / "output/lr-001/pass-00001"));
  EXPECT_NE(metrics_of("lr-001"), "");

  const Outcome again = cluster_.run(sweep("lr.toml", {"--json"}));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_TRUE(again.says("6 of 6 trials are on the nodes already")) << again.output;
  EXPECT_FALSE(again.says("started:")) << again.output;
  EXPECT_TRUE(again.says("\"best\": \"lr-002\"")) << again.output;

  // A job that is no trial, and a setting that is another one now.
  ASSERT_EQ(cluster_.run({"train", "--name", "x-000", "--trainers", "1", "w"}).code, 0);
  write("x.toml", "[[parameter]]\nkey = \"optimizer.learning_rate\"\nvalues = [0.1]\n");
  const Outcome other = cluster_.run(sweep("x.toml"));
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(other.says("job x-000 on the nodes is no trial of this sweep")) << other.output;
  write("lr.toml", "[[parameter]]\nkey = \"optimizer.learning_rate\"\nvalues = [0.002]\n");
  const Outcome changed = cluster_.run(sweep("lr.toml", {"--set", "train.batch_size=10"}));
  EXPECT_EQ(changed.code, 2);
  EXPECT_TRUE(
      changed.says("lr-000 was started with other settings than the sweep now has: "
                   "optimizer.learning_rate 0.001 -> 0.002"))
      << changed.output;
}

TEST_F(SweepTest, KilledAtAnyMomentItGoesOnAndRunsEachTrialOnce) {
  const Outcome whole = cluster_.run(sweep("lr.toml"));
  ASSERT_EQ(whole.code, 0) << whole.output;
  int kills = 0;
  for (const char* const moment :
       {"6 trials by cost", "pushed ", "pservers ready", "again-002 started", "again-003 done",
        "again-005 started", "again-005 done"}) {
    Process killed = cluster_.start(sweep("again.toml"));
    if (!killed.prints(moment)) continue;  // it came before the last kill
    killed.signal(SIGKILL);
    kills += killed.wait() == 128 + SIGKILL ? 1 : 0;
  }
  EXPECT_GE(kills, 5);
  const Outcome last = cluster_.run(sweep("again.toml"));
  ASSERT_EQ(last.code, 0) << last.output;
  EXPECT_EQ(rows_of(last.output, "again"), rows_of(whole.output, "lr")) << last.output;
  for (int i = 0; i < 6; ++i) {
    const std::string metrics = metrics_of(fmt::format("again-00{}", i));
    EXPECT_EQ(count_of(metrics, "\"kind\":\"pass\""), 2U) << i << metrics;
  }
}

TEST_F(SweepTest, CtrlCSavesTheTrialsThatRunAndTheSameCommandGoesOn) {
  write("long.toml",
        "at_once = 2\n[[parameter]]\nkey = \"optimizer.learning_rate\"\nvalues = [0.001, 0.01]\n");
  const auto command = sweep("long.toml", {"--set", "train.passes=100"});
  Process stopped = cluster_.start(command);
  ASSERT_TRUE(stopped.prints("long-001 started")) << stopped.output();
  ASSERT_TRUE(trains("long-001")) << stopped.output();
  stopped.signal(SIGINT);
  EXPECT_EQ(stopped.wait(), 75) << stopped.output();
  for (const char* const text :
       {"asking long-000, long-001 to stop and to save; Ctrl-C again ends them immediately",
        "long-000 stopped", "long-001 stopped", "interrupted: 0 of 2 trials have ended",
        "run the same command again"})
    EXPECT_NE(stopped.output().find(text), std::string::npos) << text << stopped.output();
  const Outcome jobs = cluster_.run({"jobs", "--tag", "sweep=long"});
  EXPECT_EQ(count_of(jobs.output, "stopped"), 2U) << jobs.output;

  const Outcome done = cluster_.run(command);
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_TRUE(done.says("long-000 goes on: optimizer.learning_rate=0.001")) << done.output;
  EXPECT_EQ(rows_of(done.output, "long").size(), 2U) << done.output;
  EXPECT_EQ(count_of(metrics_of("long-001"), "\"kind\":\"pass\""), 100U);
}

TEST_F(SweepTest, AFailedTrialIsTheWorstAndHostileValuesArriveUnchanged) {
  write_own("",
            "[[parameter]]\nkey = \"trainer.command\"\nvalues = [[\"sh\", \"train.sh\", \"fail\"], "
            "[\"sh\", \"train.sh\", \"it's \\\"a b\\\" = [1]; $HOME `id` \\\\ é #\"]]\n",
            "[ \"$1\" = fail ] && exit 3\n"
            "printf '%s' \"$1\" > $PADDLE_INIT_SAVE_DIR/word\n"
            "echo '{\"kind\":\"test\",\"pass\":0,\"batch\":1,\"accuracy\":0.5,\"unix_ms\":1}' "
            ">> $PADDLE_INIT_METRICS\n");
  const Outcome swept = cluster_.run(sweep("own.toml", {}, "own"));
  EXPECT_EQ(swept.code, 1) << swept.output;
  EXPECT_TRUE(swept.says("own-000 failed: ")) << swept.output;
  EXPECT_TRUE(swept.says("exited with code 3")) << swept.output;
  EXPECT_TRUE(swept.says("best: own-001, accuracy 0.5 in pass 1")) << swept.output;
  EXPECT_TRUE(swept.says("1 of 2 trials failed: own-000")) << swept.output;
  EXPECT_EQ(TemporaryFolder::read(cluster_.folder() / "output/own-001/word"),
            "it's \"a b\" = [1]; $HOME `id` \\ é #");

  // It is not run again unless it is removed.
  const Outcome again = cluster_.run(sweep("own.toml", {}, "own"));
  EXPECT_EQ(again.code, 1);
  EXPECT_FALSE(again.says("started:")) << again.output;
  EXPECT_EQ(cluster_.run({"rm", "--yes", "own-000"}).code, 0);
  EXPECT_TRUE(cluster_.run(sweep("own.toml", {}, "own")).says("own-000 started:"));
}

// Trials that the rule should end wait for that after their first pass.
TEST_F(SweepTest, HalvingEndsTheWorseTrialsAndTheOthersRunToTheirEnd) {
  write_own("method = \"halving\"\ntrials = 4\n",
            "[[parameter]]\nkey = \"seed\"\ninteger = [1, 1000]\n",
            "case $PADDLE_INIT_SAVE_DIR in\n"
            "  */own-000/*) figure=0.5;; */own-001/*) figure=0.4;;\n"
            "  */own-002/*) figure=0.6;; *) figure=0.3;;\n"
            "esac\n"
            "[ $PADDLE_INIT_RESUME = true ] && exit 0\n"
            "mkdir -p $PADDLE_INIT_SAVE_DIR/pass-00000\n"
            "echo m > $PADDLE_INIT_SAVE_DIR/pass-00000/MANIFEST\n"
            "trap 'exit 75' TERM\n"
            "for pass in 0 1 2 3; do\n"
            "  echo \"{\\\"kind\\\":\\\"test\\\",\\\"pass\\\":$pass,\\\"batch\\\":1,"
            "\\\"accuracy\\\":$figure,\\\"unix_ms\\\":1}\" >> $PADDLE_INIT_METRICS\n"
            "  case $figure in 0.4|0.3) sleep 1000 & wait;; esac\n"
            "done\n");
  const Outcome swept = cluster_.run(sweep("own.toml", {}, "own"));
  EXPECT_EQ(swept.code, 0) << swept.output;
  for (const char* const text :
       {"own-000 done: accuracy 0.5", "own-001 pruned: accuracy 0.4 in pass 1",
        "own-002 done: accuracy 0.6", "own-003 pruned: ", "best: own-002"})
    EXPECT_TRUE(swept.says(text)) << text << swept.output;
  EXPECT_EQ(count_of(metrics_of("own-002"), "test"), 4U);

  const Outcome again = cluster_.run(sweep("own.toml", {"--json"}, "own"));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_FALSE(again.says("started:")) << again.output;
  EXPECT_FALSE(again.says("goes on:")) << "a pruned trial stays ended: " << again.output;
  EXPECT_EQ(count_of(again.output, "\"state\": \"pruned\""), 2U) << again.output;

  // The user may continue one by hand: it then counts as any other.
  const Outcome resumed = cluster_.run({"train", "--resume", "--name", "own-001"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  const Outcome last = cluster_.run(sweep("own.toml", {"--json"}, "own"));
  EXPECT_EQ(count_of(last.output, "\"state\": \"pruned\""), 1U) << last.output;
}

TEST_F(SweepTest, TheExampleOfTheDocumentationRunsAsItStands) {
  cluster_.copy_template("quick_start");
  const fs::path example = fs::path(TEMPLATES_FOLDER) / "quick_start/sweep.toml";
  fs::copy_file(example, fs::path(cluster_.folder() / "quick_start/sweep.toml"));
  ASSERT_EQ(cluster_.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
  const Outcome listed = cluster_.run_in("quick_start", {"sweep", "sweep.toml", "--dry-run", "."});
  EXPECT_EQ(listed.code, 0) << listed.output;
  EXPECT_TRUE(listed.says("quick-005")) << listed.output;
  const Outcome swept =
      cluster_.run_in("quick_start", {"sweep", "sweep.toml", "--cluster", "../cluster.toml", "."});
  EXPECT_EQ(swept.code, 0) << swept.output;
  EXPECT_TRUE(swept.says("quick: 6 trials by cost")) << swept.output;
  EXPECT_TRUE(fs::exists(cluster_.folder() / "quick_start/output/quick.html"));
  const std::string page = TemporaryFolder::read(fs::path(TEMPLATES_FOLDER) / "../docs/sweep.md");
  EXPECT_NE(page.find(TemporaryFolder::read(example)), std::string::npos);
}

}  // namespace
}  // namespace paddle::test
