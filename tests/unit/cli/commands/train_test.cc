// A job from its plan to its results.
#include <fmt/format.h>

#include "base/fd.h"
#include "engine/config/job_config.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

// The engine alone knows where blocks lie; here a script stands for it.
TEST_F(CommandsTest, PlanAsksTheEngineAndStartsNothing) {
  write("paddle", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "--pservers", "3", "--set", "seed=2", "w"}), 0);
  EXPECT_TRUE(out_has("plan\n--config=" + folder_ + "/w/job.toml\n")) << out_.str();
  EXPECT_TRUE(out_has("--num_gradient_servers=2\n"));
  EXPECT_TRUE(out_has("--pserver_names=n-0,n-1,n-0\n"));
  EXPECT_TRUE(out_has("--set=seed=2\n"));
  EXPECT_TRUE(nodes_[0].processes.empty());
  const std::string dry = out_.str();
  EXPECT_EQ(run({"plan", "--pservers", "3", "--set", "seed=2", "w"}), 0);
  EXPECT_EQ(out_.str(), dry);
  write("paddle", "#!/bin/sh\necho 'paddle: no such layer' >&2\necho 'hint: look' >&2\nexit 2\n");
  EXPECT_EQ(run({"plan", "w"}), 2);
  EXPECT_TRUE(err_has("no such layer")) << err_.str();
  EXPECT_TRUE(err_has("look"));
}

TEST_F(CommandsTest, TrainRunsToItsEndAndBringsResultsHome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(out_has("pass 1 (pass-00000): held-out cost 0.5, perplexity 1.65"));
  EXPECT_EQ(*read_file(folder_ + "/output/job1/pass-00000/MANIFEST"), "m");
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/node_1/server.log"));
  for (FakeNode& node : nodes_) {
    EXPECT_EQ(node.claimed_job, "job1");
    EXPECT_FALSE(node.files.contains("jobs/job1/workspace/.git/x"));
  }
  EXPECT_EQ(running(), std::vector<std::string>());
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/workspace/data/train-00000"));
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/workspace/data/train-00000"));
  EXPECT_TRUE(nodes_[1].files.contains("jobs/job1/workspace/data/dictionary.txt"));
  EXPECT_EQ(train(), 2);  // the name is taken
  EXPECT_TRUE(err_has("already exists"));
}

// The file here is the user's, with comments; the one on the nodes needs no --set.
TEST_F(CommandsTest, NodesGetTheJobTomlThatPaddlectlHasResolved) {
  const std::string path = "jobs/job1/workspace/job.toml";
  write("w/first.toml", std::string("# mine\n") + kJob);
  fs::remove(folder_ + "/w/job.toml");
  fs::create_symlink("first.toml", folder_ + "/w/job.toml");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(nodes_[0].files[path], *read_file(folder_ + "/w/job.toml")) << "the same lines";
  ASSERT_EQ(run({"rm", "job1", "--yes", "--discard"}), 0) << err_.str();
  ASSERT_EQ(run({"train", "--name", "job1", "--set", "train.passes=7", "--set",
                 "optimizer.learning_rate=0.3", "w"}),
            0)
      << err_.str();
  for (const FakeNode& node : nodes_) {
    write("there/job.toml", node.files.at(path));
    EXPECT_EQ(*read_file(folder_ + "/output/job1/job.toml"), node.files.at(path));
    fs::create_directory_symlink(folder_ + "/w/data", folder_ + "/there/data");
    const auto job = config::read_job(folder_ + "/there/job.toml");
    fs::remove_all(folder_ + "/there");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_EQ(job->train.passes, 7U);
    EXPECT_EQ(job->optimizer.learning_rate(), 0.3F);
    for (const auto& [name, spec] : node.specs) {
      for (const std::string& argument : spec.arguments)
        EXPECT_FALSE(argument.starts_with("--set")) << name << ": " << argument;
    }
  }
  EXPECT_TRUE(read_file(folder_ + "/w/job.toml")->starts_with("# mine\n"));
}

TEST_F(CommandsTest, VariablesThatAreTooLargeAreRefusedBeforeThePush) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const std::string large(70'000, 'x');
  write("vars", "LARGE=" + large + "\n");
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--env", "LARGE=" + large}, {"--env-file", folder_ + "/vars"}}) {
    EXPECT_EQ(run({"train", "--name", "job1", option[0], option[1], "w"}), 2) << err_.str();
    EXPECT_TRUE(err_has("0: the arguments and variables have 7")) << err_.str();
    EXPECT_TRUE(err_has("kB, and the limit is 64 KiB")) << err_.str();
    EXPECT_FALSE(err_has("pushed")) << err_.str();
    for (const FakeNode& node : nodes_) {
      for (const auto& [path, content] : node.files)
        EXPECT_FALSE(path.starts_with("jobs/")) << path;
    }
  }
  EXPECT_EQ(train(), 0) << "the name and the ports are free: " << err_.str();
}

TEST_F(CommandsTest, TrainEndsWithItsFinalNumbersAsJson) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--json", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("state": "done", )")) << out_.str();
  EXPECT_TRUE(out_has(R"("pass": 0, "passes": null, "data": "held-out", "cost": 0.5, )"
                      R"("evaluators": {"perplexity": 1.65}, "diverged": false})"))
      << out_.str();
}

TEST_F(CommandsTest, AMomentWithoutAnyConnectionDoesNotEndAJob) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  for (FakeNode& node : nodes_) node.breaks_after = 3;
  on_pause_ = [&] {
    if (nodes_[0].breaks_after != 0) return;
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) process.state = ProcessState::kExited;
    }
  };
  EXPECT_EQ(run({"attach"}), 0) << err_.str();
}

// In the time of the fake clock.
TEST_F(CommandsTest, TheEndOfAShortJobIsNoticedSoon) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  constexpr Duration kJob = std::chrono::milliseconds(300);
  const TimePoint begun = clock_.now();
  on_pause_ = [&] {
    if (clock_.now() - begun < kJob) return;
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) process.state = ProcessState::kExited;
    }
  };
  EXPECT_EQ(run({"attach"}), 0) << err_.str();
  EXPECT_LT(clock_.now() - begun, kJob * 4 / 3);
}

TEST_F(CommandsTest, AttachShowsTheLastTestsOfThePastAndAllThatCome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  std::string& metrics = nodes_[0].files["jobs/job1/node_0/metrics.jsonl"];
  const auto tested = [&metrics](int pass) {
    metrics += fmt::format("{{\"kind\":\"test\",\"pass\":{},\"samples\":10,\"cost\":0.5}}\n", pass);
  };
  metrics.clear();
  for (int pass = 0; pass < 250; ++pass) tested(pass);
  on_pause_ = [&] {
    for (int pass = 250; pass < 260; ++pass) tested(pass);
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) process.state = ProcessState::kExited;
    }
    on_pause_ = {};
  };
  ASSERT_EQ(run({"attach"}), 0) << err_.str();
  std::string expected;
  for (int pass = 246; pass <= 260; ++pass)
    expected +=
        fmt::format("pass {} (pass-{:05}): held-out cost 0.5 (10 samples)\n", pass, pass - 1);
  EXPECT_TRUE(out_.str().starts_with(expected)) << out_.str();
  EXPECT_TRUE(err_has("245 earlier results not shown\n")) << err_.str();
}

TEST_F(CommandsTest, AJobThatTrainedEndsWellWhateverPassWasAskedFor) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pass", "pass-00003", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("warning: the nodes have no snapshot of pass 4 (pass-00003) of job job1; they have "
              "pass-00000; train.snapshots_kept sets how many are kept; fetching the last\n"))
      << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/pass-00000/MANIFEST"));
  trainer_exit_ = 6;
  EXPECT_EQ(run({"train", "--pass", "pass-00003", "--name", "job2", "w"}), 6) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job2/node_0/server.log"));
}

TEST_F(CommandsTest, AWorkspaceOfAnyNameGivesAJobItsName) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  fs::rename(folder_ + "/w", folder_ + "/-my w\xc3\xb6rk");
  ASSERT_EQ(run({"train", "./-my w\xc3\xb6rk"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job my-w--rk-19700101-000000: ")) << err_.str();
  ASSERT_EQ(run({"train", "./-my w\xc3\xb6rk"}), 0) << "in the same second: " << err_.str();
  EXPECT_TRUE(err_has("job my-w--rk-19700101-000000-2: ")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
