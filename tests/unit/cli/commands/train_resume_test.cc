// train --resume: jobs that go on, and the command that is kept for it.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/job/settings.h"
#include "engine/config/toml_reader.h"
#include "proto/agent.pb.h"
#include "tests/support/snapshot_manifest.h"
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
  EXPECT_TRUE(err_has("resume with: paddlectl train --resume --name job1 <workspace>\n"))
      << "with the settings that the nodes have\n"
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
  const auto manifest = [this](const std::string& name, std::uint64_t pass,
                               const std::string& base) {
    write("output/job1/" + name + "/MANIFEST", test::snapshot_manifest(pass, 9, base));
  };
  manifest("pass-00000", 1, "");
  manifest("pass-00001", 2, "");
  manifest("pass-00002", 3, "pass-00001");
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
    nodes_[0].files["jobs/job1/output/" + name + "/MANIFEST"] = test::snapshot_manifest(1, 9);
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
  // The value at the key in the job.toml that the process reads; "" if the file has none.
  std::string setting_of(const std::string& process, const std::string& key) {
    FakeNode& node = nodes_[process == "trainer-1" ? 1 : 0];
    auto job = config::TomlTable::parse(node.files["jobs/job1/workspace/job.toml"], "job.toml");
    EXPECT_TRUE(job) << job.error().message;
    EXPECT_TRUE(std::ranges::none_of(arguments_of(process), [](const std::string& argument) {
      return argument.starts_with("--set");
    })) << "nodes know no --set";
    return job ? job->settings()[key] : "";
  }
};

TEST_F(ResumedJob, GoesOnWithTheSettingsOptionsAndCountsOfItsLastRun) {
  stopped_run({"--trainers", "1", "--pservers", "2", "--restarts", "4", "--stall-restarts-after",
               "9", "--set", "train.batch_size=3", "--set=train.passes=7"});
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "3");
  EXPECT_EQ(setting_of("trainer-0", "train.passes"), "7");
  EXPECT_TRUE(has_argument("trainer-0", "--num_gradient_servers=1"));
  EXPECT_EQ(nodes_[0].specs["trainer-0"].pservers, 2U);
  EXPECT_EQ(nodes_[0].specs["trainer-0"].restarts, 4U);
  EXPECT_EQ(nodes_[0].specs["trainer-0"].hang_ms, 9000U);
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
}

TEST_F(ResumedJob, IsFoundFromAnyFolderAndFromThatOfItsWorkspace) {
  stopped_run({"--set", "train.batch_size=3"});
  ASSERT_EQ(run({"train", "--resume"}), 0) << "the latest job, in no workspace\n" << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "3");
  fs::remove_all(folder_ + "/output");
  EXPECT_EQ(run({"train", "--resume", "--name", "job1"}), 2) << "a node names no folder to push";
  EXPECT_TRUE(err_has("no job.toml in")) << err_.str();
  EXPECT_EQ(run({"train", "--resume", "--name", "nonesuch"}), 2);
  EXPECT_TRUE(err_has("job nonesuch is not on the nodes and not in output\nhint: list the jobs"))
      << err_.str();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "3") << "as its nodes know it";
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
  EXPECT_EQ(setting_of("trainer-0", "train.passes"), "7");
  EXPECT_EQ(nodes_[0].specs["trainer-0"].restarts, 0U);
  // And so does the next one.
  has_snapshot("pass-00001-000050");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "5");
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
  EXPECT_EQ(setting_of("trainer-0", "optimizer.learning_rate"), "0.5");
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

TEST_F(ResumedJob, WithoutARecordItNamesTheSettingsThatItLeavesOut) {
  stopped_run({"--trainers", "1", "--set", "train.batch_size=3", "--restarts", "2"});
  fs::remove_all(folder_ + "/output");
  for (FakeNode& node : nodes_) node.files.erase("jobs/job1/settings.jsonl");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: train.batch_size 3 -> none\n")) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "");
  EXPECT_TRUE(has_argument("trainer-0", "--num_gradient_servers=1"));
  EXPECT_EQ(nodes_[0].specs["trainer-0"].restarts, 2U);
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

TEST_F(ResumedJob, ADryRunPlansWithTheSettingsOfTheLastRun) {
  stopped_run({"--trainers", "1", "--pservers", "2", "--set", "train.batch_size=3"});
  write("paddle", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  const auto files = nodes_[0].files;
  const std::string settings = test::TemporaryFolder::read(folder_ + "/output/job1/settings.jsonl");
  for (FakeNode& node : nodes_) node.claimed_job.clear();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--dry-run"}), 0)
      << "from a folder that is no workspace\n"
      << err_.str();
  EXPECT_TRUE(out_has("plan\n--config=" + folder_ + "/w/job.toml\n")) << out_.str();
  EXPECT_TRUE(out_has("--num_gradient_servers=1\n")) << out_.str();
  EXPECT_TRUE(out_has("--pserver_names=n-0,n-1\n")) << out_.str();
  EXPECT_TRUE(out_has("--set=train.batch_size=3\n")) << out_.str();
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
  const std::string plan = out_.str();
  ASSERT_EQ(run({"train", "--resume", "--dry-run", "w"}), 0) << "the latest job\n" << err_.str();
  EXPECT_EQ(out_.str(), plan);
  ASSERT_EQ(run({"train", "--dry-run", "w"}), 0) << err_.str();
  EXPECT_FALSE(out_has("--set=")) << "a new job has no settings of another\n" << out_.str();
  ASSERT_EQ(run({"train", "--resume", "--dry-run", "--trainers", "2", "--set", "train.batch_size=5",
                 "w"}),
            0)
      << err_.str();
  EXPECT_TRUE(out_has("--num_gradient_servers=2\n")) << out_.str();
  EXPECT_TRUE(out_has("--set=train.batch_size=5\n")) << out_.str();
  EXPECT_FALSE(out_has("--set=train.batch_size=3\n")) << out_.str();
  EXPECT_TRUE(err_has("changed since the last run: train.batch_size 3 -> 5\n")) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --trainers 1 -> 2\n")) << err_.str();
  EXPECT_EQ(nodes_[0].files, files);
  EXPECT_TRUE(nodes_[0].claimed_job.empty());
  EXPECT_TRUE(running().empty());
  EXPECT_EQ(test::TemporaryFolder::read(folder_ + "/output/job1/settings.jsonl"), settings);
}

TEST_F(ResumedJob, ADryRunRefusesWhatCannotBeResumed) {
  write("paddle", "#!/bin/sh\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  EXPECT_EQ(run({"train", "--resume", "--dry-run", "--name", "other", "w"}), 2);
  EXPECT_TRUE(err_has("job other is not on the nodes and not in output")) << err_.str();
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"train", "--resume", "--dry-run", "--name", "job1", "w"}), 2);
  EXPECT_TRUE(err_has("job job1 still runs")) << err_.str();
  // Pservers of a start that was broken off run on.
  for (FakeNode& node : nodes_) {
    std::erase_if(node.processes, [](const ProcessStatus& process) {
      return process.name.starts_with("trainer-");
    });
  }
  ASSERT_EQ(running(), (std::vector<std::string>{"pserver-0", "pserver-1"}));
  EXPECT_EQ(run({"train", "--resume", "--dry-run", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(running(), (std::vector<std::string>{"pserver-0", "pserver-1"}));
}

TEST_F(ResumedJob, IsPlacedOnTheNodesOfItsLastRun) {
  stopped_run({"--on", "n-1"});
  nodes_[0].files.clear();
  nodes_[1].files["jobs/job1/output/pass-00001/MANIFEST"] = test::snapshot_manifest(2, 9);
  nodes_[1].specs.clear();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[1].specs.contains("trainer-0"));
  EXPECT_TRUE(nodes_[0].specs.empty());
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--on", "all", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --on n-1 -> all\n")) << err_.str();
  EXPECT_TRUE(nodes_[0].specs.contains("trainer-0")) << err_.str();
}

TEST_F(ResumedJob, UsesAllNodesIfTheClusterLacksThoseOfTheLastRun) {
  stopped_run({"--on", "n-1"});
  write("output/job1/pass-00000/MANIFEST", test::snapshot_manifest(1, 9));
  nodes_[0].files.clear();
  write("c.toml", "name = \"t\"\n[[node]]\nname = \"n-0\"\nlauncher = \"local\"\n");
  EXPECT_EQ(run({"train", "--resume", "--name", "job1", "--on", "n-1", "w"}), 2);
  EXPECT_TRUE(nodes_[0].specs.empty()) << "a node that the command line names is used or refused";
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("the cluster lacks nodes of the last run, --on n-1: all nodes of the cluster "
              "are used\n"))
      << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --on n-1 -> none\n")) << err_.str();
  EXPECT_TRUE(nodes_[0].specs.contains("trainer-0"));
}

// A job whose nodes have more than this machine: a node was taken over, or somebody resumed the job
// on another machine.
class ResumedJobOfNodes : public ResumedJob {
 protected:
  // The settings of a later run, with these --set and --env after those of the last one.
  std::string later(const std::vector<std::string>& overrides,
                    const std::vector<std::string>& variables = {}) {
    JobSettings settings = *decode_settings(first_);
    settings.run += 1'000'000'000;
    settings.workspace = "/etc";
    settings.overrides.insert(settings.overrides.end(), overrides.begin(), overrides.end());
    settings.variables = variables;
    return encode(settings);
  }
  void stopped_run(const std::vector<std::string>& more) {
    ResumedJob::stopped_run(more);
    first_ = nodes_[0].files[kSettings];
    forget_starts();
  }
  void forget_starts() {
    for (FakeNode& node : nodes_) {
      node.specs.clear();
      node.claimed_job.clear();
    }
  }
  int resume(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "--resume", "--name", "job1"});
    more.emplace_back("w");
    return run(more);
  }
  void refuses(const std::vector<std::string>& more, int code, const std::string& why,
               const std::string& way) {
    EXPECT_EQ(resume(more), code) << err_.str();
    EXPECT_TRUE(err_has(why)) << why << "\n" << err_.str();
    EXPECT_TRUE(err_has(way)) << way << "\n" << err_.str();
    for (const FakeNode& node : nodes_) {
      EXPECT_TRUE(node.specs.empty()) << why;
      EXPECT_TRUE(node.claimed_job.empty()) << why << ": no node has to know of it";
    }
  }
  // Writes the variables into the record of a process that ended.
  void has_variables(std::size_t node, const std::map<std::string, std::string>& variables) {
    wire::agent::ProcessSpec spec;
    for (const auto& [name, value] : variables) {
      (*spec.mutable_environment())[name] = value;
      (*spec.mutable_sources())[name] = wire::agent::VARIABLE_FROM_COMMAND_LINE;
    }
    nodes_[node].files["jobs/job1/proc/trainer-" + std::to_string(node) + "/spec"] =
        spec.SerializeAsString();
  }

  const std::string kSettings = "jobs/job1/settings.jsonl";
  std::string first_;  // the settings of the run from here
};

constexpr const char* kPipe = "data.pipe_command=[\"sh\",\"-c\",\"touch it\"]";

TEST_F(ResumedJobOfNodes, BelievesNoNodeThatIsAloneWithItsSettings) {
  stopped_run({"--set", "train.batch_size=3"});
  const std::string why =
      "nodes disagree on the settings of the last run of job job1: those of n-1 differ from those "
      "of n-0";
  const std::string way =
      "paddlectl train --resume --name job1 --on n-1, if somebody resumed the job there; else --on "
      "n-0";
  for (const char* const one :
       {"trainer.command=[\"sh\"]", "trainer.setup=[\"sh\"]", "trainer.requirements=data/test.txt",
        "data.command=[\"sh\"]", kPipe, "data.train=/etc/*", "train.batch_size=9"}) {
    nodes_[1].files[kSettings] = later({one});
    refuses({}, 1, why, way);
    refuses({"--dry-run"}, 1, why, way);
  }
  nodes_[1].files[kSettings] = later({}, {"LD_PRELOAD"});
  refuses({}, 1, why, way);
  // On another machine, which has no settings of the job.
  fs::rename(folder_ + "/output", folder_ + "/elsewhere");
  refuses({}, 1, why, way);
  nodes_[0].files.erase(kSettings);
  refuses({}, 1, why, way);
  nodes_[0].files[kSettings] = first_;
  fs::rename(folder_ + "/elsewhere", folder_ + "/output");
  // A record of a later run hides no other node either.
  for (ProcessStatus& process : nodes_[1].processes) process.run = 2'000'000'000;
  refuses({}, 1, why, way);
  nodes_[0].files.erase(kSettings);
  refuses({}, 1, why, way);
  nodes_[0].files[kSettings] = first_;
  ASSERT_EQ(resume({"--on", "n-0"}), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "3");
  EXPECT_FALSE(nodes_[0].specs["trainer-0"].environment.contains("LD_PRELOAD"));
}

TEST_F(ResumedJobOfNodes, PassesOverALaterRunWithTheSameOptions) {
  stopped_run({"--set", "train.batch_size=3"});
  nodes_[1].files[kSettings] = later({});
  ASSERT_EQ(resume(), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-1", "train.batch_size"), "3");
  EXPECT_FALSE(err_has("taken from the nodes")) << err_.str();
}

TEST_F(ResumedJobOfNodes, TakesTheSettingsOfAnotherMachineAndSaysWhichTheyAre) {
  stopped_run({"--set", "train.batch_size=3", "--restarts", "4"});
  const std::string here = folder_ + "/output", mine = folder_ + "/mine",
                    other = folder_ + "/other";
  fs::rename(here, mine);
  ASSERT_EQ(resume({"--set", "train.passes=7", "--restarts", "2"}), 0) << err_.str();
  EXPECT_TRUE(err_has("taken from the nodes of job1: train.batch_size none -> 3\n")) << err_.str();
  EXPECT_EQ(setting_of("trainer-1", "train.batch_size"), "3");
  fs::rename(here, other);
  fs::rename(mine, here);
  has_snapshot("pass-00001-000050");
  ASSERT_EQ(resume(), 0) << err_.str();
  EXPECT_TRUE(err_has("taken from the nodes of job1: train.passes none -> 7\n")) << err_.str();
  EXPECT_TRUE(err_has("taken from the nodes of job1: --restarts 4 -> 2\n")) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.passes"), "7");
  EXPECT_EQ(setting_of("trainer-1", "train.batch_size"), "3");
  EXPECT_EQ(nodes_[1].specs["trainer-1"].restarts, 2U);
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
  // Then the other machine finds the settings that this one has started the job with.
  fs::rename(here, mine);
  fs::rename(other, here);
  has_snapshot("pass-00001-000060");
  ASSERT_EQ(resume({"--restarts", "3"}), 0) << err_.str();
  EXPECT_FALSE(err_has("taken from the nodes")) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --restarts 2 -> 3\n")) << err_.str();
}

TEST_F(ResumedJobOfNodes, AsksNoNodeThatTheLastRunLeftOut) {
  stopped_run({"--set", "train.batch_size=3"});
  const std::string here = folder_ + "/output", mine = folder_ + "/mine";
  fs::rename(here, mine);
  has_snapshot("pass-00001");  // between two passes another number of trainers may continue
  ASSERT_EQ(resume({"--trainers", "1", "--pservers", "1", "--set", "train.passes=7"}), 0)
      << err_.str();
  EXPECT_TRUE(nodes_[1].specs.empty());
  EXPECT_FALSE(nodes_[1].files.contains(kSettings)) << "it is not a node of the last run";
  fs::remove_all(here);
  fs::rename(mine, here);
  has_snapshot("pass-00002");
  ASSERT_EQ(resume(), 0) << err_.str();
  EXPECT_TRUE(err_has("taken from the nodes of job1: train.passes none -> 7\n")) << err_.str();
  EXPECT_TRUE(has_argument("trainer-0", "--num_gradient_servers=1"));
}

TEST_F(ResumedJobOfNodes, RunsNoProgramThatOnlyTheyName) {
  stopped_run({"--set", "train.batch_size=3"});
  const auto all_have = [&](const std::string& settings) {
    for (FakeNode& node : nodes_) node.files[kSettings] = settings;
  };
  const auto names = [&](const std::string& key) {
    return "only the nodes of job job1 have the program of " + key;
  };
  for (const char* const key :
       {"trainer.command", "trainer.setup", "data.command", "data.pipe_command"}) {
    all_have(later({std::string(key) + "=[\"sh\",\"-c\",\"touch it\"]"}));
    refuses({}, 2, names(key), std::string("if it is to run, type it: --set '") + key + "=[");
  }
  all_have(later({"trainer.requirements=list.txt"}));
  refuses({}, 2, names("trainer.requirements"), "type it: --set trainer.requirements=list.txt");
  for (const char* const spelled :
       {R"(data={pipe_command=["cat"]})", R"("data"."pipe_command"=["cat"])",
        R"( data . pipe_command = ["cat"])", R"('data'={"pipe_command"=["cat"],format="bow"})"}) {
    all_have(later({spelled}));
    refuses({}, 2, names("data.pipe_command"), "type it: --set '");
  }
  all_have(later({std::string("data.pipe_command=[\"") + std::string(5000, 'x') + "\"]"}));
  refuses({}, 2, names("data.pipe_command"), "--set KEY=...");
  all_have(later({kPipe}));
  refuses({"--dry-run"}, 2, names("data.pipe_command"), "type it");
  ASSERT_EQ(resume({"--set", kPipe}), 0) << err_.str();
  EXPECT_NE(setting_of("trainer-1", "data.pipe_command").find("touch it"), std::string::npos);
  // The settings here have it now.
  has_snapshot("pass-00001-000050");
  forget_starts();
  ASSERT_EQ(resume(), 0) << err_.str();
  EXPECT_NE(setting_of("trainer-1", "data.pipe_command").find("touch it"), std::string::npos);
  // Another machine has none.
  fs::remove_all(folder_ + "/output");
  has_snapshot("pass-00001-000060");
  forget_starts();
  refuses({}, 2, names("data.pipe_command"), "touch it");
}

TEST_F(ResumedJobOfNodes, GetsNoProgramFromProcessesWithoutARecord) {
  stopped_run({"--set", "train.batch_size=3"});
  fs::remove_all(folder_ + "/output");
  for (FakeNode& node : nodes_) {
    node.files.erase(kSettings);
    std::string& job = node.files["jobs/job1/workspace/job.toml"];
    job.insert(job.find("[data]\n") + 7, std::string(kPipe).substr(5) + "\n");
    for (ProcessStatus& process : node.processes)
      process.arguments.push_back(std::string("--set=") + kPipe);
  }
  ASSERT_EQ(resume(), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "data.pipe_command"), "");
}

TEST_F(ResumedJobOfNodes, GivesNoVariableThatOnlyTheyName) {
  stopped_run({"--env", "TOKEN=s3cret"});
  has_variables(0, {{"TOKEN", "s3cret"}});
  const std::string why = "only the nodes of job job1 have these variables: ";
  has_variables(1, {{"TOKEN", "s3cret"}, {"LD_PRELOAD", "/tmp/x.so"}});
  refuses({}, 2, why + "LD_PRELOAD", "type each: --env LD_PRELOAD;");
  has_variables(0, {{"TOKEN", "s3cret"}, {"LD_PRELOAD", "/tmp/x.so"}});
  refuses({}, 2, why + "LD_PRELOAD", "type each: --env LD_PRELOAD;");
  has_variables(0, {{"TOKEN", "s3cret"}});
  // Names alone would take the values from this machine, or bring values of their own.
  ::setenv("PADDLE_TEST_SECRET", "secret of this machine", 1);
  has_variables(1, {{"TOKEN", "s3cret"}});
  for (FakeNode& node : nodes_)
    node.files[kSettings] = later({}, {"TOKEN", "PADDLE_TEST_SECRET", "PATH=/tmp"});
  refuses({}, 2, why + "PADDLE_TEST_SECRET", "type each: --env PADDLE_TEST_SECRET;");
  EXPECT_FALSE(err_has("PATH=/tmp")) << "no option that brings its own value";
  ::unsetenv("PADDLE_TEST_SECRET");
  for (FakeNode& node : nodes_) node.files[kSettings] = first_;
  // A name that is known here has one value.
  has_variables(1, {{"TOKEN", "another"}});
  refuses({}, 2, "nodes n-0 and n-1 disagree on the value of --env TOKEN", "--env TOKEN=VALUE");
  has_variables(1, {});
  refuses({}, 2, "nodes n-0 and n-1 disagree on the value of --env TOKEN", "--env TOKEN=VALUE");
  ASSERT_EQ(resume({"--env", "TOKEN=mine"}), 0) << err_.str();
  EXPECT_EQ(nodes_[1].specs["trainer-1"].environment.at("TOKEN"), "mine");
}

TEST_F(ResumedJobOfNodes, GivesTheVariablesThatAnotherMachineTypesByName) {
  stopped_run({"--env", "TOKEN=s3cret"});
  for (const std::size_t node : {0U, 1U}) has_variables(node, {{"TOKEN", "s3cret"}});
  fs::rename(folder_ + "/output", folder_ + "/mine");
  refuses({}, 2, "only the nodes of job job1 have these variables: TOKEN", "--env TOKEN;");
  ASSERT_EQ(resume({"--env", "TOKEN"}), 0) << err_.str();
  EXPECT_EQ(nodes_[1].specs["trainer-1"].environment.at("TOKEN"), "s3cret");
  EXPECT_FALSE(err_has("s3cret"));
}

TEST_F(ResumedJobOfNodes, BelievesNoSettingsThatOthersCouldWrite) {
  stopped_run({"--set", "train.batch_size=3"});
  const std::string output = folder_ + "/output", job = output + "/job1";
  const std::string settings = job + "/settings.jsonl";
  const auto refused_if_open = [&](const std::string& path, mode_t open, mode_t closed) {
    ASSERT_EQ(::chmod(path.c_str(), open), 0);
    refuses({}, 5, "can be written by all users", "");
    refuses({"--dry-run"}, 5, "can be written by all users", "");
    ASSERT_EQ(::chmod(path.c_str(), closed), 0);
  };
  refused_if_open(output, 0777, 0755);
  refused_if_open(job, 0777, 0755);
  refused_if_open(settings, 0666, 0600);
  if (::geteuid() == 0) {  // only root gives files away
    for (const auto& [path, code] :
         {std::pair{output, 6}, std::pair{job, 6}, std::pair{settings, 5}}) {
      ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
      refuses({}, code, "belongs to ", "");
      ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
    }
  }
  const test::TemporaryFolder elsewhere;
  fs::rename(output, elsewhere / "output");
  fs::create_directory_symlink(elsewhere / "output", output);
  refuses({}, 6, "is a link", "");
  ASSERT_EQ(::chmod(elsewhere.path().c_str(), 0777), 0);
  refuses({"--output", elsewhere / "output"}, 5, "can be written by all users", "");
  ASSERT_EQ(::chmod(elsewhere.path().c_str(), 01777), 0);
  ASSERT_EQ(resume({"--output", elsewhere / "output"}), 0) << err_.str();
  EXPECT_EQ(setting_of("trainer-0", "train.batch_size"), "3");
}

// The snapshots of such a job are the engine's, so paddlectl checks them.
TEST_F(CommandsTest, AJobWithTablesGoesOnFromTheEnginesSnapshots) {
  const std::string job =
      "[trainer]\ncommand = [\"./train\"]\n[[table]]\nname = \"user\"\nwidth = 16\n";
  write("w/job.toml", job);
  write("output/job1/pass-00000/MANIFEST", test::snapshot_manifest(1, 9));
  write("output/job1/pass-00001/MANIFEST", "m");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("output/job1/pass-00001 is skipped: ")) << err_.str();
  EXPECT_TRUE(err_has("pass-00000 copied to n-0")) << err_.str();
  EXPECT_EQ(nodes_[0].specs["trainer-0"].environment.at("PADDLE_INIT_RESUME"), "true");
}

}  // namespace
}  // namespace paddle::cli
