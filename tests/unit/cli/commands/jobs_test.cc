// `paddlectl jobs` on two nodes in memory.
#include <fmt/format.h>

#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class JobsTest : public CommandsTest {
 protected:
  // A process with files on a node; it started `started_ms` after the epoch.
  ProcessStatus& add(FakeNode& node, const std::string& job, const std::string& name,
                     std::int64_t started_ms) {
    ProcessStatus status;
    status.job = job;
    status.name = name;
    status.log = "jobs/" + job + "/" + name + ".log";
    status.state = ProcessState::kExited;
    status.started_unix_ms = started_ms;
    node.files[status.log] = "0123456789";
    node.processes.push_back(status);
    return node.processes.back();
  }
  int jobs(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"jobs", "--cluster", "c.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(JobsTest, AJobWhoseStartBrokeOffIsNotDone) {
  add(nodes_[0], "broken", "pserver-0", 400'000);
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("broken  not started")) << out_.str();
  nodes_[0].processes.back().state = ProcessState::kRunning;
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("broken  not started")) << "its pserver waits for nobody: " << out_.str();
  nodes_[0].starting = {"broken"};
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("broken  starting")) << out_.str();
}

TEST_F(JobsTest, NodesLeftOutMakeAStateUnknown) {
  ProcessStatus& pserver = add(nodes_[0], "half", "pserver-0", 400'000);
  pserver.trainers = pserver.pservers = 1;
  EXPECT_EQ(jobs({"--on", "n-0"}), 0) << err_.str();
  EXPECT_TRUE(out_has("half  unknown")) << out_.str();
}

TEST_F(JobsTest, AJobOfBeforeIsKnownWithoutANodeThatUpLeftOut) {
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  for (const auto& [job, code] : {std::pair("done", 0), std::pair("bad", 3)}) {
    for (const std::size_t number : {0U, 1U}) {
      ProcessStatus& trainer =
          add(nodes_[number], job, "trainer-" + std::to_string(number), 400'000);
      trainer.trainers = 2;
      trainer.exit_code = code;
      trainer.ended_unix_ms = 500'000 + static_cast<int>(number);
    }
  }
  add(nodes_[0], "lost", "pserver-0", 400'000).trainers = 1;
  nodes_[1].unreachable = true;
  EXPECT_EQ(jobs(), 4) << err_.str();
  EXPECT_TRUE(out_has("done  unknown")) << out_.str();
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("done  done ")) << out_.str();
  EXPECT_TRUE(out_has("bad   failed: trainer-0 exited with code 3")) << out_.str();
  EXPECT_TRUE(out_has("lost  unknown")) << "no trainer of it was seen: " << out_.str();
  EXPECT_EQ(run({"status", "--job", "done"}), 0) << err_.str();
  EXPECT_TRUE(err_has("left out, as in `up --any`: n-1")) << err_.str();
}

TEST_F(JobsTest, TheFiguresOfAJobAreThoseOfItsNewestRun) {
  for (const std::uint64_t run : {2U, 1U}) {
    FakeNode& node = nodes_[2 - run];
    ProcessStatus& trainer = add(node, "moved", "trainer-0", 400'000);
    trainer.run = run;
    trainer.log = "jobs/moved/train.log";
    trainer.exit_code = run == 1 ? 4 : 0;
    node.files["jobs/moved/metrics.jsonl"] =
        fmt::format("{{\"kind\":\"pass\",\"pass\":{},\"batch\":9,\"cost\":0.375}}\n", run + 4);
  }
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("moved  done ")) << out_.str();
  EXPECT_TRUE(out_has("     7  0.375")) << out_.str();
}

TEST_F(JobsTest, ShowsProgressCostAndBytesOfEachJobFromTheOldestToTheNewest) {
  add(nodes_[0], "old", "pserver-0", 400'000);
  add(nodes_[1], "old", "trainer-0", 400'500).arguments = {"train", "--set=train.passes=7"};
  nodes_[1].processes.back().reports = true;
  nodes_[1].processes.back().log = "jobs/old/train.log";
  nodes_[1].files["jobs/old/metrics.jsonl"] =
      "{\"kind\":\"test\",\"pass\":0,\"samples\":1,\"cost\":0.25}\n"
      "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.5}\n"
      "{\"kind\":\"pass\",\"pass\":1,\"batch\":9,\"cost\":0.375}\n";
  nodes_[1].files["jobs/old/workspace/job.toml"] = "[train]\npasses = 3\n";
  add(nodes_[0], "new", "trainer-0", 940'000).state = ProcessState::kRunning;

  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(
      out_has("job  state       age  trainers x pservers    pass   cost  best held-out  on nodes"))
      << out_.str();
  const std::size_t old_at = out_.str().find(
      "\nold  done     10m00s                1 x 1  2 of 3  "
      "0.375           0.25");
  const std::size_t new_at = out_.str().find("\nnew  running   1m00s                1 x 0");
  EXPECT_NE(old_at, std::string::npos) << out_.str();
  EXPECT_NE(new_at, std::string::npos) << out_.str();
  EXPECT_LT(old_at, new_at);

  EXPECT_EQ(jobs({"--json"}), 0);
  EXPECT_TRUE(out_has(
      R"([{"job": "old", "state": "done", "age_seconds": 600, "trainers": 1, "pservers": 1, )"
      R"("pass": 1, "passes": 3, "cost": 0.375, "best_held_out_cost": 0.25, )"
      R"("best_held_out": {"figure": "cost", "value": 0.25}, "bytes": )"))
      << out_.str();
  EXPECT_TRUE(out_has(R"("nodes": ["n-0", "n-1"], "tags": [], "note": "", "git": null}, )"
                      R"({"job": "new", "state": "running", )"))
      << out_.str();
  EXPECT_TRUE(
      out_has(R"("pass": null, "passes": null, "cost": null, "best_held_out_cost": null, )"))
      << out_.str();
}

TEST_F(JobsTest, AProgramOfOnesOwnTellsItsPassesByItsMetrics) {
  for (const char* job : {"told", "untold"}) {
    add(nodes_[0], job, "trainer-0", 400'000);
    nodes_[0].processes.back().log = std::string("jobs/") + job + "/train.log";
    nodes_[0].files[std::string("jobs/") + job + "/workspace/job.toml"] = "[trainer]\n";
  }
  nodes_[0].files["jobs/told/metrics.jsonl"] =
      "{\"kind\":\"train\",\"pass\":2,\"passes\":3,\"batch\":9,\"cost\":0.375}\n"
      "{\"kind\":\"pass\",\"pass\":2,\"batch\":9,\"cost\":0.375}\n";
  nodes_[0].files["jobs/untold/metrics.jsonl"] =
      "{\"kind\":\"pass\",\"pass\":2,\"batch\":9,\"cost\":0.375}\n";
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("3 of 3  0.375")) << out_.str();
  EXPECT_TRUE(out_has("     3  0.375")) << out_.str();
  EXPECT_FALSE(out_has("of 1")) << out_.str();
}

TEST_F(JobsTest, AJobThatHangsIsStalled) {
  const auto reported = [this](FakeNode & node, const char* name, std::int64_t ms_ago) -> auto& {
    ProcessStatus& status = add(node, "hung", name, 400'000);
    status.state = ProcessState::kRunning;
    status.reports = true;
    status.progress.emplace();
    status.progress->batch = 7;
    status.progress->unix_ms = node.usage.unix_ms - ms_ago;
    return *status.progress;
  };
  reported(nodes_[0], "trainer-0", 161'000);
  reported(nodes_[1], "trainer-1", 162'000);
  reported(nodes_[0], "pserver-0", 500).awaited = {"trainer-1"};
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("hung  stalled: trainer-1  ")) << out_.str();
  EXPECT_EQ(jobs({"--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"({"job": "hung", "state": "running", )")) << out_.str();
  EXPECT_TRUE(out_has(R"("stalled": ["trainer-1"], )")) << out_.str();
}

TEST_F(JobsTest, TheBestFigureIsTheOneThatTheJobChose) {
  const auto job = [this](const std::string& name, const std::string& tests,
                          const std::string& toml, bool reports) {
    ProcessStatus& trainer = add(nodes_[0], name, "trainer-0", 400'000);
    trainer.reports = reports;
    trainer.log = "jobs/" + name + "/train.log";
    nodes_[0].files["jobs/" + name + "/metrics.jsonl"] = tests;
    nodes_[0].files["jobs/" + name + "/workspace/job.toml"] = toml;
  };
  const std::string both =
      "{\"kind\":\"test\",\"pass\":0,\"samples\":1,\"cost\":0.25,\"auc\":0.75}\n"
      "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.5,\"auc\":0.875}\n";
  job("a", both, "[train]\nbest = \"auc\"\n", true);
  job("b", both, "[train]\npasses = 2\n", true);
  job("c", "{\"kind\":\"test\",\"pass\":0,\"accuracy\":0.5}\n", "[trainer]\n", false);
  // An evaluator of type auc with a name of its own: the lines say that higher is better.
  job("d",
      "{\"kind\":\"test\",\"pass\":0,\"clicks\":0.625,\"higher_is_better\":\"clicks\"}\n"
      "{\"kind\":\"test\",\"pass\":1,\"clicks\":0.5,\"higher_is_better\":\"clicks\"}\n",
      "[train]\nbest = \"clicks\"\n", true);
  EXPECT_EQ(jobs(), 0) << err_.str();
  for (const char* const row : {"a    ", "b    ", "c    "}) EXPECT_TRUE(out_has(row)) << out_.str();
  EXPECT_TRUE(out_has("  auc 0.875  ")) << out_.str();
  EXPECT_TRUE(out_has("         0.25  ")) << out_.str();
  EXPECT_TRUE(out_has("  accuracy 0.5  ")) << out_.str();
  EXPECT_TRUE(out_has("  clicks 0.625  ")) << out_.str();
  EXPECT_EQ(jobs({"--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("best_held_out": {"figure": "auc", "value": 0.875})")) << out_.str();
}

TEST_F(JobsTest, TheCostOfAPassIsThatOfAllTrainers) {
  add(nodes_[0], "j", "trainer-0", 500'000);
  nodes_[0].processes.back().log = "jobs/j/train.log";
  nodes_[0].files["jobs/j/metrics.jsonl"] =
      "{\"kind\":\"pass\",\"pass\":1,\"passes\":3,\"cost\":7.5,\"total_cost\":0.25}\n";
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("2 of 3  0.25 ")) << out_.str();
  EXPECT_FALSE(out_has("7.5")) << out_.str();
}

TEST_F(JobsTest, ALongNameIsCutBeforeAColumnIsLost) {
  add(nodes_[0], std::string(100, 'x'), "trainer-0", 400'000);
  add(nodes_[0], "short", "trainer-0", 500'000);
  nodes_[0].processes.back().log = "jobs/short/train.log";
  nodes_[0].files["jobs/short/metrics.jsonl"] =
      "{\"kind\":\"pass\",\"pass\":1,\"passes\":3,\"cost\":0.375421}\n"
      "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.412137}\n";
  console_options_.columns = 80;
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("xxx...  ")) << out_.str();
  EXPECT_TRUE(out_has("best held-out")) << out_.str();
  EXPECT_TRUE(out_has("0.412137")) << out_.str();
  EXPECT_TRUE(out_has("2 of 3")) << out_.str();
  EXPECT_TRUE(out_has("age")) << out_.str();
}

TEST_F(JobsTest, ALongStateIsCutOnANarrowTerminal) {
  const std::string failed = "quick_start-20260101-120000";
  ProcessStatus& trainer = add(nodes_[0], failed, "trainer-1", 400'000);
  trainer.state = ProcessState::kKilled;
  trainer.signal = 9;
  add(nodes_[0], "done", "trainer-0", 500'000);
  nodes_[0].processes.back().log = "jobs/done/train.log";
  nodes_[0].files["jobs/done/metrics.jsonl"] =
      "{\"kind\":\"pass\",\"pass\":109,\"passes\":3000,\"batch\":9,\"cost\":0.375421}\n";
  nodes_[0].files["jobs/done/workspace/job.toml"] = "[train]\npasses = 3000\n";
  console_options_.columns = 80;
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has(failed + "  failed: trainer-1 ")) << out_.str();
  EXPECT_TRUE(out_has("...  ")) << out_.str();
  EXPECT_TRUE(out_has("  110 of 3000  ")) << out_.str();
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
  EXPECT_EQ(jobs({"--json"}), 0);
  EXPECT_TRUE(out_has("failed: trainer-1 killed by signal 9")) << out_.str();
}

TEST_F(JobsTest, NamesTheStateInWhichAJobEnded) {
  add(nodes_[0], "failed", "trainer-0", 1).exit_code = 6;
  add(nodes_[0], "saved", "trainer-0", 2).exit_code = 75;
  ProcessStatus& stopped = add(nodes_[1], "stopped", "trainer-0", 3);
  stopped.state = ProcessState::kKilled;
  stopped.signal = 15;
  stopped.stopped = true;
  nodes_[0].files["jobs/begun/workspace/job.toml"] = "12345";
  EXPECT_EQ(jobs(), 0) << err_.str();
  EXPECT_TRUE(out_has("failed   failed: trainer-0 exited with code 6")) << out_.str();
  EXPECT_TRUE(out_has("saved    stopped  ")) << out_.str();
  EXPECT_TRUE(out_has("stopped  stopped  ")) << out_.str();
  EXPECT_TRUE(out_has("begun    not started  ")) << out_.str();
  EXPECT_TRUE(out_has("5 B\n")) << "its files are there before any process: " << out_.str();
  EXPECT_EQ(run({"status", "--cluster", "c.toml", "--job", "begun"}), 2);
  EXPECT_TRUE(
      err_has("error: job begun is not started: its files are on n-0, but it has no process\n"
              "hint: start it with `paddlectl train --name begun`, or remove the files: paddlectl "
              "rm begun\n"))
      << err_.str();
  EXPECT_EQ(run({"status", "--cluster", "c.toml", "--job", "../jobs/begun"}), 2);
  EXPECT_TRUE(err_has("this cluster has no job '../jobs/begun'")) << err_.str();
}

TEST_F(JobsTest, NamesUnreachableNodesAndWhatTheyHideOfAJob) {
  const auto add_one = [&](const std::string& job, const std::string& name, std::uint32_t trainers,
                           std::uint32_t pservers) {
    ProcessStatus& status = add(nodes_[0], job, name, 2);
    status.trainers = trainers;
    status.pservers = pservers;
  };
  add_one("wide", "trainer-0", 2, 2);
  add_one("whole", "pserver-0", 1, 1);
  add_one("whole", "trainer-0", 1, 1);
  add_one("alone", "trainer-0", 1, 0);
  add(nodes_[1], "elsewhere", "trainer-0", 3);
  nodes_[1].unreachable = true;
  EXPECT_EQ(jobs(), 4);
  EXPECT_TRUE(out_has("wide   unknown")) << "its other trainer may run: " << out_.str();
  EXPECT_TRUE(out_has("2 x 2")) << out_.str();
  EXPECT_TRUE(out_has("whole  done")) << out_.str();
  EXPECT_TRUE(out_has("alone  done")) << "it has no pservers: " << out_.str();
  EXPECT_FALSE(out_has("elsewhere"));
  EXPECT_TRUE(err_has("jobs and files on these nodes are not in the list:\nnode n-1: no route"))
      << err_.str();
  EXPECT_EQ(jobs({"--on", "n-0"}), 0) << err_.str();
}

TEST_F(JobsTest, NodesWithoutJobsAndWithoutPaddlectlAreWell) {
  EXPECT_EQ(jobs({"--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "[]\n");
  nodes_[0].torn_down = nodes_[1].torn_down = true;
  EXPECT_EQ(jobs({"--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "[]\n");
}

TEST_F(JobsTest, HostileTextOfANodePaintsNoTerminal) {
  add(nodes_[0], "a\x1b[2J", "trainer-0", 1);
  EXPECT_EQ(jobs(), 0);
  EXPECT_TRUE(out_has("a\\x1b[2J")) << out_.str();
  EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace paddle::cli
