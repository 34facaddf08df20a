// train --resume: jobs that go on, and the command that is kept for it.
#include "proto/agent.pb.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AttachNamesTheCommandThatResumesTheJobAsItWas) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--trainers", "2", "--set",
                 "train.batch_size=3", "w"}),
            0)
      << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.state = ProcessState::kExited;
      status.exit_code = status.name.starts_with("trainer-") ? 75 : 0;
    }
  }
  EXPECT_EQ(run({"attach"}), 75) << err_.str();
  EXPECT_TRUE(
      err_has("resume with: paddlectl train --resume --name job1 --detach --trainers 2 "
              "--set train.batch_size=3 w\n"))
      << err_.str();
  EXPECT_EQ(run({"attach", "--output", "elsewhere"}), 75) << err_.str();
  EXPECT_TRUE(
      err_has("resume with: paddlectl train --resume --name job1 --set "
              "train.batch_size=3 <workspace>\n"))
      << "as the nodes tell it\n"
      << err_.str();
}

TEST_F(CommandsTest, TheCommandIsKeptBeforeAnyProcessIsStarted) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  std::string kept;
  nodes_[0].on_start = [&](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    kept = test::TemporaryFolder::read(folder_ + "/output/job1/commands.jsonl");
  };
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_NE(kept.find("\"paddlectl train --resume --name job1 w\""), kept.npos) << kept;
}

TEST_F(CommandsTest, AnEndedJobKeepsItsSecretWhenItCannotBeResumed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  const std::string file = "jobs/job1/keys/pserver-0";
  const std::string key = nodes_[0].files[file];
  ASSERT_FALSE(key.empty());
  nodes_[0].taken_ports[7164] = "pid 9 (x)";
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 7) << err_.str();
  EXPECT_EQ(nodes_[0].files[file], key) << "restart would start it with two secrets";
  nodes_[0].taken_ports.clear();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_NE(nodes_[0].files[file], key);
}

TEST_F(CommandsTest, AResumedJobGetsItsSnapshotBackFromHere) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 2);
  EXPECT_TRUE(err_has("job job1 has no snapshot, on its nodes or in output/job1")) << err_.str();
  EXPECT_TRUE(nodes_[0].claimed_job.empty()) << "refused before the nodes know of it";
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
  EXPECT_FALSE(fs::exists(folder_ + "/output/job1"));
  const auto manifest = [this](const std::string& name, int pass, const std::string& base) {
    write("output/job1/" + name + "/MANIFEST",
          "snapshot format=1\nprogress pass=" + std::to_string(pass) + " step=9 seed=1\n" + base);
  };
  manifest("pass-00000", 1, "");
  manifest("pass-00001", 2, "");
  manifest("pass-00002", 3, "base crc32c=01 name=pass-00001\n");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("pass-00002 copied to n-0")) << err_.str();
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/output/pass-00002/MANIFEST"));
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/output/pass-00001/MANIFEST"));
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/output/pass-00002/MANIFEST"));
}

TEST_F(CommandsTest, AResumedJobShowsOnlyTheTestsToCome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_TRUE(out_has("pass 1 (pass-00000): held-out"));
  nodes_[0].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    std::string& metrics = fake.files["jobs/job1/node_0/metrics.jsonl"];
    const std::string before = metrics;
    started(fake, status);
    metrics = before;
    if (status.name == "trainer-0")
      metrics += "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.25}\n";
  };
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_FALSE(out_has("pass 1 (pass-00000): ")) << out_.str();
  EXPECT_TRUE(out_has("pass 2 (pass-00001): held-out cost 0.25")) << out_.str();
  EXPECT_TRUE(err_has("continuing after pass 1\n")) << err_.str();
}

// A snapshot of the job in the middle of a pass, or at its end, on the node of trainer 0.
class ResumedJob : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  void has_snapshot(const std::string& name) {
    nodes_[0].files["jobs/job1/output/" + name + "/MANIFEST"] =
        "snapshot format=1\nprogress pass=1 step=9 seed=1\n";
  }
  // Ended in the middle of its second pass.
  void stopped_run(const std::vector<std::string>& more) {
    std::vector<std::string> command{"train", "--name", "job1"};
    command.insert(command.end(), more.begin(), more.end());
    command.emplace_back("w");
    trainer_exit_ = 75;
    EXPECT_EQ(run(command), 75) << err_.str();
    has_snapshot("pass-00001-000040");
    trainer_exit_ = 0;
  }
  const std::vector<std::string>& arguments_of(const std::string& process) {
    return nodes_[process == "trainer-1" ? 1 : 0].specs[process].arguments;
  }
  bool has_argument(const std::string& process, const std::string& argument) {
    return std::ranges::count(arguments_of(process), argument) > 0;
  }
};

TEST_F(ResumedJob, GoesOnWithTheSettingsOptionsAndCountsOfItsLastRun) {
  stopped_run({"--trainers", "1", "--pservers", "2", "--restarts", "4", "--stall-restarts-after",
               "9", "--set", "train.batch_size=3", "--set=train.passes=7"});
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.batch_size=3"));
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.passes=7"));
  EXPECT_TRUE(has_argument("trainer-0", "--num_gradient_servers=1"));
  EXPECT_EQ(nodes_[0].specs["trainer-0"].pservers, 2U);
  EXPECT_EQ(nodes_[0].specs["trainer-0"].restarts, 4U);
  EXPECT_EQ(nodes_[0].specs["trainer-0"].hang_ms, 9000U);
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
}

TEST_F(ResumedJob, IsFoundFromAnyFolderAndFromThatOfItsWorkspace) {
  stopped_run({"--set", "train.batch_size=3"});
  ASSERT_EQ(run({"train", "--resume"}), 0) << "the latest job, in no workspace\n" << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.batch_size=3"));
  fs::remove_all(folder_ + "/output");
  EXPECT_EQ(run({"train", "--resume", "--name", "job1"}), 2) << "a node names no folder to push";
  EXPECT_TRUE(err_has("no job.toml in")) << err_.str();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.batch_size=3")) << "as its nodes know it";
}

TEST_F(ResumedJob, TakesTheNewCommandLineAndSaysWhatDiffers) {
  stopped_run({"--set", "train.batch_size=3", "--set", "train.passes=7", "--restarts", "4"});
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--set", "train.batch_size=5", "--restarts",
                 "0", "--pservers", "1", "w"}),
            0)
      << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: train.batch_size 3 -> 5\n")) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --restarts 4 -> 0\n")) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --pservers 2 -> 1\n")) << err_.str();
  EXPECT_FALSE(err_has("train.passes")) << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.passes=7"));
  EXPECT_FALSE(has_argument("trainer-0", "--set=train.batch_size=3"));
  EXPECT_EQ(nodes_[0].specs["trainer-0"].restarts, 0U);
  // And so does the next one.
  has_snapshot("pass-00001-000050");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.batch_size=5"));
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
}

TEST_F(ResumedJob, SaysWhatAnEditedJobTomlChanges) {
  stopped_run({"--set", "optimizer.learning_rate=0.5"});
  std::string job = kJob;
  job.replace(job.find("learning_rate = 0.1"), 19, "learning_rate = 0.2");
  write("w/job.toml", job + "[train]\npasses = 9\n");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: train.passes none -> 9\n")) << err_.str();
  EXPECT_FALSE(err_has("learning_rate")) << "--set of the last run stands before job.toml";
  EXPECT_TRUE(has_argument("trainer-0", "--set=optimizer.learning_rate=0.5"));
}

TEST_F(ResumedJob, NamesTheWorkspaceThatIsNoLongerWhereItWas) {
  stopped_run({});
  fs::rename(folder_ + "/w", folder_ + "/moved");
  EXPECT_EQ(run({"train", "--resume", "--name", "job1"}), 2);
  EXPECT_TRUE(err_has("no job.toml in " + folder_ + "/w, the workspace of the last run of job1"))
      << err_.str();
  EXPECT_TRUE(err_has("paddlectl train --resume --name job1 <workspace>")) << err_.str();
  EXPECT_EQ(run({"train", "--resume", "--name", "job1", "moved"}), 0) << err_.str();
}

TEST_F(ResumedJob, IsNotChangedWithinAPassInWhatItsPlaceRestsOn) {
  stopped_run({"--set", "train.shuffle_records=9"});
  const auto refuses = [&](const std::vector<std::string>& more, const std::string& what,
                           const std::string& way) {
    std::vector<std::string> command{"train", "--resume", "--name", "job1"};
    command.insert(command.end(), more.begin(), more.end());
    command.emplace_back("w");
    EXPECT_EQ(run(command), 2) << err_.str();
    EXPECT_TRUE(err_has("in the middle of pass 2, where these settings must not change"))
        << err_.str();
    EXPECT_TRUE(err_has(what)) << err_.str();
    EXPECT_TRUE(err_has(way)) << err_.str();
    EXPECT_TRUE(running().empty());
  };
  refuses({"--set", "seed=2"}, "seed 1 -> 2", "--resume --name job1 --set seed=1 w;");
  refuses({"--set", "train.shuffle_records=0"}, "train.shuffle_records 9 -> 0",
          "--set train.shuffle_records=9 w;");
  refuses({"--trainers", "1"}, "--trainers 2 -> 1", "--resume --name job1 --trainers 2 w;");
  const std::string before = test::TemporaryFolder::read(folder_ + "/w/data/train-00001");
  write("w/data/train-00001", "0\ta\n");
  refuses({}, "data/train-00001 has different content", "restore the former files");
  write("w/data/train-00001", before);
  // Between two passes all of it may change; batches may at any time.
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--set", "train.batch_size=7", "w"}), 0)
      << err_.str();
  has_snapshot("pass-00001");
  write("w/data/train-00001", "0\ta\n");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--set", "seed=2", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: data/train-00001 has different content\n"));
  EXPECT_TRUE(err_has("changed since the last run: seed none -> 2\n")) << err_.str();
}

TEST_F(ResumedJob, HasItsVariablesAndNoFileHasTheirValues) {
  stopped_run({"--env", "TOKEN=s3cret"});
  for (const FakeNode& node : nodes_) {
    for (const auto& [path, text] : node.files)
      EXPECT_EQ(text.find("s3cret"), std::string::npos) << path;
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/output")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(test::TemporaryFolder::read(entry.path().string()).find("s3cret"), std::string::npos)
        << entry.path();
  }
  EXPECT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 2) << "its nodes lost it";
  EXPECT_TRUE(err_has("TOKEN")) << err_.str();
  wire::agent::ProcessSpec spec;
  (*spec.mutable_environment())["TOKEN"] = "s3cret";
  (*spec.mutable_environment())["NCCL_DEBUG"] = "INFO";
  (*spec.mutable_sources())["TOKEN"] = wire::agent::VARIABLE_FROM_COMMAND_LINE;
  nodes_[0].files["jobs/job1/proc/pserver-0/spec"] = spec.SerializeAsString();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(nodes_[0].specs["trainer-0"].environment.at("TOKEN"), "s3cret");
  EXPECT_FALSE(nodes_[0].specs["trainer-0"].environment.contains("NCCL_DEBUG"));
  nodes_[0].files["jobs/job1/proc/pserver-0/spec"] = spec.SerializeAsString();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--env", "TOKEN=new", "w"}), 0);
  EXPECT_EQ(nodes_[0].specs["trainer-0"].environment.at("TOKEN"), "new");
  EXPECT_TRUE(err_has("changed since the last run: --env TOKEN has another value")) << err_.str();
  EXPECT_FALSE(err_has("s3cret"));
}

TEST_F(ResumedJob, WithoutARecordGoesOnAsItsProcessesTell) {
  stopped_run({"--set", "train.batch_size=3", "--restarts", "2"});
  fs::remove_all(folder_ + "/output");
  for (FakeNode& node : nodes_) node.files.erase("jobs/job1/settings.jsonl");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--set=train.batch_size=3")) << err_.str();
}

TEST_F(ResumedJob, KeepsTheConfigurationThatWasPushedWhateverANodeSends) {
  stopped_run({"--set", "train.passes=7"});
  const std::string path = folder_ + "/output/job1/job.toml";
  const std::string pushed = test::TemporaryFolder::read(path);
  EXPECT_NE(pushed.find("passes = 7"), std::string::npos) << pushed;
  for (FakeNode& node : nodes_)
    node.files["jobs/job1/workspace/job.toml"] = "[data]\ncommand = [\"evil\"]\n";
  EXPECT_EQ(run({"fetch", "job1"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].copies_end_with_interrupts) << "Ctrl-C ends a fetch";
  EXPECT_EQ(run({"report", "job1"}), 0) << err_.str();
  EXPECT_EQ(test::TemporaryFolder::read(path), pushed);
  EXPECT_EQ(run({"report", "job1", "--output", "elsewhere"}), 0) << err_.str();
  EXPECT_FALSE(fs::exists(folder_ + "/elsewhere/job1/job.toml"));
  EXPECT_TRUE(fs::exists(folder_ + "/elsewhere/job1/job.toml.of-node"));
}

}  // namespace
}  // namespace paddle::cli
