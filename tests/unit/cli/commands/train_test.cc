// A job from its plan to its results, and out of what may go wrong on the way.
#include <fmt/format.h>

#include "base/fd.h"
#include "base/version.h"
#include "proto/job_keys.h"
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

TEST_F(CommandsTest, AJobOfAProgramOfTheUsersOwnRunsWithoutPservers) {
  write("w/job.toml", "[trainer]\ncommand = [\"./train\", \"now\"]\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"plan", "--pservers", "0", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "trainer-0     n-0                 ./train now\n"
            "trainer-1     n-1                 ./train now\n");
  ASSERT_EQ(run({"train", "--pservers", "0", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1: 2 trainers on 2 nodes")) << err_.str();
  EXPECT_FALSE(err_has("pserver")) << err_.str();
  for (const FakeNode& node : nodes_) EXPECT_EQ(node.specs.size(), 1U);
  // It goes on without them too.
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1: 2 trainers on 2 nodes")) << err_.str();
  EXPECT_FALSE(nodes_[0].specs.contains("pserver-0"));
}

TEST_F(CommandsTest, TheBuiltInTrainerWithoutPserversIsRefused) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  using Words = std::vector<std::string>;
  for (const Words& command : {Words{"plan"}, Words{"train"}, Words{"render", "slurm"}}) {
    Words words = command;
    words.insert(words.end(), {"--pservers", "0", "w"});
    EXPECT_EQ(run(words), 2);
    EXPECT_TRUE(err_has("the built-in trainer keeps its parameters on pservers: 0 is too few"));
    EXPECT_TRUE(err_has("hint: --pservers 1; 0 is for [strategy] dense = ")) << err_.str();
  }
  EXPECT_TRUE(nodes_[0].specs.empty());
}

constexpr const char* kCollectiveJob = R"([data]
train = "train.txt"
format = "multislot"
[[data.slot]]
name = "x"
type = "float"
width = 2
[[data.slot]]
name = "y"
type = "float"
width = 1
[[layer]]
name = "out"
type = "fc"
input = ["x"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["out"]
label = "y"
[strategy]
dense = "collective"
)";

// Its trainers listen for each other, with keys for their pairs only.
TEST_F(CommandsTest, ACollectiveJobRunsWithoutPservers) {
  write("w/job.toml", kCollectiveJob);
  write("w/train.txt", "2 1 2 1 3\n2 1 2 1 3\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pservers", "1", "w"}), 2);
  EXPECT_TRUE(err_has("dense = \"collective\" has nothing for 1 pserver to do")) << err_.str();
  EXPECT_TRUE(err_has("hint: --pservers 0")) << err_.str();
  ASSERT_EQ(run({"train", "--pservers", "0", "--name", "job1", "w"}), 0) << err_.str();
  const auto keys_of = [&](std::size_t node, const std::string& process) {
    const std::string& file = nodes_[node].files["jobs/job1/keys/" + process];
    return *JobKeys::decode(as_bytes(file));
  };
  const JobKeys first = keys_of(0, "trainer-0");
  const JobKeys second = keys_of(1, "trainer-1");
  const NodeId server{Role::kTrainer, 0}, client{Role::kTrainer, 1}, other{Role::kTrainer, 2};
  EXPECT_TRUE(std::ranges::equal(first.pair(client, server)->reveal(),
                                 second.pair(client, server)->reveal()));
  EXPECT_FALSE(second.pair(other, server));
  const auto& arguments = nodes_[1].specs["trainer-1"].arguments;
  const bool is_told = std::ranges::any_of(
      arguments, [](const std::string& one) { return one.starts_with("--trainers="); });
  EXPECT_TRUE(is_told);
}

TEST_F(CommandsTest, ACollectiveJobWithATableNeedsAPserverWithoutDensePorts) {
  std::string job = kCollectiveJob;
  job.insert(job.find("[[layer]]"),
             "[[data.slot]]\nname = \"id\"\ntype = \"id\"\n"
             "[[layer]]\nname = \"table\"\ntype = \"embedding\"\ninput = [\"id\"]\nsize = 2\n"
             "weight = { sparse = true }\n");
  write("w/job.toml", job);
  write("w/train.txt", "2 1 2 1 3 1 5\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pservers", "0", "w"}), 2);
  EXPECT_TRUE(err_has("the sparse table of layer 'table' is on pservers: 0 is too few"))
      << err_.str();
  ASSERT_EQ(run({"train", "--pservers", "1", "--name", "job1", "w"}), 0) << err_.str();
  for (const auto& [node, process] :
       {std::pair<std::size_t, const char*>(0, "pserver-0"), {1, "trainer-1"}}) {
    const auto& arguments = nodes_[node].specs[process].arguments;
    EXPECT_EQ(std::ranges::count(arguments, "--ports_num=0"), 1) << process;
  }
}

TEST_F(CommandsTest, AnEngineOfAnotherReleaseIsNamedWithBothVersions) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("paddle", "#!/bin/sh\necho 'paddlectl engine 0.0.7, compiled with'\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  EXPECT_EQ(train(), 3);
  EXPECT_TRUE(err_has(std::string("paddle is 0.0.7, paddlectl is ") + kProgramVersion))
      << err_.str();
  EXPECT_TRUE(err_has("hint: put both of one release into one folder: " + folder_ + "/paddle"));
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(CommandsTest, ADryRunRefusesTrainersWithoutDataAsTrainDoes) {
  write("paddle", "#!/bin/sh\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "--trainers", "2", "w"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "--trainers", "4", "w"}), 6);
  EXPECT_TRUE(err_has("2 files match data/train-*, but there are 4 trainers")) << err_.str();
  fs::remove(folder_ + "/w/data/test.txt");
  EXPECT_EQ(run({"train", "--dry-run", "w"}), 6);
  EXPECT_TRUE(err_has("no file matches 'data/test.txt' in ")) << err_.str();
}

TEST_F(CommandsTest, ANetworkThatCannotBeBuiltIsNamedBeforeAnythingIsPushed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const auto files = nodes_[0].files;
  write("paddle", "#!/bin/sh\necho \"paddle: job.toml:9: layer 'x': no\" >&2\nexit 2\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  EXPECT_EQ(train(), 2);
  EXPECT_TRUE(err_has("job.toml:9: layer 'x': no")) << err_.str();
  EXPECT_EQ(nodes_[0].files, files);
  EXPECT_TRUE(nodes_[0].processes.empty());
  // A program that is not for this machine may be for the nodes.
  write("paddle", "engine of another machine");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_read);
  EXPECT_EQ(train(), 0) << err_.str();
}

TEST_F(CommandsTest, TrainRunsToItsEndAndBringsResultsHome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(out_has("pass 1: held-out cost 0.5, perplexity 1.65"));
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

TEST_F(CommandsTest, TrainNamesTheFirstCauseAndStopsTheRest) {
  trainer_exit_ = 6;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("trainer-0 on n-0 exited with code 6")) << err_.str();
  EXPECT_TRUE(err_has("n-0/trainer-0 | bad record in data/train-00000:7"));
  EXPECT_EQ(running(), std::vector<std::string>());
}

TEST_F(CommandsTest, AFailedJobIsStoppedOverConnectionsThatHadBroken) {
  trainer_exit_ = 6;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (FakeNode& node : nodes_) node.breaks_at_stop = true;
  EXPECT_EQ(train(), 6);
  EXPECT_FALSE(err_has("not everything could be stopped")) << err_.str();
  EXPECT_EQ(running(), std::vector<std::string>());
}

TEST_F(CommandsTest, TrainStartsNothingWhenAPortIsTaken) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].taken_ports[7164] = "pid 9 (x)";
  EXPECT_EQ(train(), 7);
  EXPECT_TRUE(
      err_has("node n-0: port 7164 on 127.0.0.1 is taken by pid 9 (x); nothing was started"));
  EXPECT_TRUE(nodes_[0].processes.empty());
  EXPECT_TRUE(nodes_[1].processes.empty());
}

TEST_F(CommandsTest, AJobTakesThePortsAfterThoseOfARunningOne) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  remote::ProcessStatus other;
  other.job = "other";
  other.name = "pserver-0";
  other.pid = 77;
  other.state = ProcessState::kRunning;
  nodes_[0].processes.push_back(other);
  nodes_[0].taken_ports[7164] = "pid 77 (paddle)";
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("other is running on these nodes")) << err_.str();
  for (FakeNode& node : nodes_) {
    for (const auto& [name, spec] : node.specs) {
      for (const std::string& argument : spec.arguments)
        EXPECT_NE(argument, "--port=7164") << name << " would not get that port";
    }
  }
}

TEST_F(CommandsTest, AJobTakesThePortsAfterThoseOfOneThatIsBeingStarted) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].claimed_ports = {7164};
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("take the ports from ")) << err_.str();
  for (const auto& [name, spec] : nodes_[0].specs) {
    for (const std::string& argument : spec.arguments) EXPECT_NE(argument, "--port=7164") << name;
  }
}

TEST_F(CommandsTest, TrainNamesANodeThatIsLostWhileItsPortsAreClaimed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].breaks_after = 1;
  EXPECT_EQ(train(), 4);
  EXPECT_TRUE(err_has("node n-0: gone")) << err_.str();
  // Beside another job as well, where the next ports are tried.
  nodes_[0].claimed_ports = {7164};
  nodes_[0].breaks_after = 2;
  EXPECT_EQ(train(), 4);
  EXPECT_TRUE(err_has("node n-0: gone")) << err_.str();
  EXPECT_TRUE(nodes_[0].specs.empty() && nodes_[1].specs.empty());
}

TEST_F(CommandsTest, TrainTouchesNothingOfAJobThatSomebodyElseStarts) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].starting = {"job1"};
  // Somebody else's pserver comes up while the loser is being refused.
  nodes_[0].on_claim = [](FakeNode& fake) {
    remote::ProcessStatus theirs;
    theirs.job = "job1";
    theirs.name = "pserver-0";
    theirs.state = ProcessState::kRunning;
    fake.processes.push_back(theirs);
  };
  EXPECT_EQ(train(), 2);
  EXPECT_TRUE(err_has("another paddlectl is starting"));
  ASSERT_EQ(nodes_[0].processes.size(), 1U);
  EXPECT_EQ(nodes_[0].processes[0].state, ProcessState::kRunning);
  for (const auto& [path, content] : nodes_[0].files)
    EXPECT_FALSE(path.starts_with("jobs/")) << path << " is pushed before the job is its own";
  // A name that nobody asked for is another one at once.
  nodes_[0].on_claim = nullptr;
  nodes_[1].starting = {"w-19700101-000000"};
  EXPECT_EQ(run({"train", "w"}), 0) << err_.str();
  EXPECT_EQ(nodes_[0].claimed_job, "w-19700101-000000-2");
}

TEST_F(CommandsTest, TrainGivesUpOnAPserverThatIsNeverReady) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].on_start = nullptr;
  EXPECT_EQ(train(), 4);
  EXPECT_TRUE(err_has("pserver-1 on n-1 was not ready in time"));
  EXPECT_EQ(nodes_[0].processes.front().state, ProcessState::kExited);
}

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

TEST_F(CommandsTest, CtrlCLetsTheJobSaveAndItGoesOnLater) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name == "trainer-1") interrupted_ = true;
  };
  EXPECT_EQ(train(), 75) << err_.str();
  EXPECT_TRUE(out_has("stopped: ")) << out_.str();
  EXPECT_TRUE(err_has("resume with: paddlectl train --resume --name job1")) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/pass-00000/MANIFEST"));
  const auto resumes = [this] {
    const auto& arguments = nodes_[1].specs["trainer-1"].arguments;
    return std::ranges::find(arguments, "--resume") != arguments.end();
  };
  EXPECT_FALSE(resumes());
  nodes_[1].on_start = nodes_[0].on_start;
  // As many processes as before, on more records than the old run left.
  ASSERT_EQ(run({"train", "--resume", "--detach", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "job1\n");
  EXPECT_TRUE(resumes());
  EXPECT_EQ(run({"train", "--resume", "w"}), 2);
  EXPECT_TRUE(err_has("job job1 still runs")) << err_.str();
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
  EXPECT_TRUE(err_has("pass-00002 brought to n-0")) << err_.str();
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/output/pass-00002/MANIFEST"));
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/output/pass-00001/MANIFEST"));
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/output/pass-00002/MANIFEST"));
}

TEST_F(CommandsTest, CtrlCBreaksAPushOff) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  interrupted_ = true;
  EXPECT_EQ(train(), 130);
  EXPECT_TRUE(err_has("interrupted: nothing was started; what arrived stays")) << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
}

TEST_F(CommandsTest, ASecondCtrlCEndsTheJobAtOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  for (FakeNode& node : nodes_) node.asked_exit = -1;
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name == "trainer-1") interrupted_ = true;
  };
  on_pause_ = [this] { interrupted_ = true; };
  EXPECT_EQ(train(), 130);
  EXPECT_TRUE(err_has("asking the job to stop and to save; Ctrl-C again ends it immediately\n"))
      << err_.str();
  EXPECT_EQ(err_.str().find("Ctrl-C again"), err_.str().rfind("Ctrl-C again")) << err_.str();
  for (FakeNode& node : nodes_) {
    for (const auto& process : node.processes)
      EXPECT_EQ(process.state, ProcessState::kExited) << process.name;
  }
}

TEST_F(CommandsTest, ATeardownElsewhereEndsTrainAtOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  for (FakeNode& node : nodes_) node.torn_down_after = 2;
  EXPECT_EQ(run({"attach"}), 130);
  EXPECT_TRUE(err_has("job 'job1' was removed from its nodes, by paddlectl teardown or rm"))
      << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

TEST_F(CommandsTest, AStopNowElsewhereIsNoFault) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (const bool has_snapshot : {true, false}) {
    const std::string job = has_snapshot ? "saved" : "unsaved";
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"train", "--detach", "--name", job, "w"}), 0) << err_.str();
    if (has_snapshot) nodes_[0].files["jobs/saved/output/pass-00000/MANIFEST"] = "m";
    on_pause_ = [this] {
      for (FakeNode& node : nodes_) {
        for (ProcessStatus& status : node.processes) {
          if (status.state != ProcessState::kRunning) continue;
          status.state = status.name == "trainer-1" ? ProcessState::kExited : ProcessState::kKilled;
          status.exit_code = 4;  // it lost its pserver
          status.signal = 15;
          status.stopped = status.name != "trainer-1";
          status.ended_unix_ms = 700;
        }
      }
    };
    EXPECT_EQ(run({"attach"}), has_snapshot ? 75 : 130) << err_.str();
    EXPECT_TRUE(err_has(job + " was stopped by paddlectl stop --now at another terminal"))
        << err_.str();
    EXPECT_FALSE(err_has("last lines")) << err_.str();
    EXPECT_TRUE(out_has("stopped: ")) << out_.str();
    EXPECT_TRUE(fs::exists(folder_ + "/output/" + job + "/node_0/server.log"));
    EXPECT_EQ(err_has("paddlectl train --resume --name saved"), has_snapshot) << err_.str();
    on_pause_ = nullptr;
  }
}

TEST_F(CommandsTest, TrainEndsWithItsFinalNumbersAsJson) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--json", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("state": "done", )")) << out_.str();
  EXPECT_TRUE(out_has(R"("pass": 0, "passes": null, "data": "held-out", "cost": 0.5, )"
                      R"("evaluators": {"perplexity": 1.65}, "diverged": false})"))
      << out_.str();
}

TEST_F(CommandsTest, AKilledProcessShowsThreeLinesOfItsLog) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name != "trainer-1") return;
    status.state = ProcessState::kKilled;
    status.signal = 9;
    fake.files[status.log] = "1\n2\n3\n4\n";
  };
  EXPECT_EQ(train(), 1);
  EXPECT_TRUE(
      err_has("error: trainer-1 on n-1 killed by signal 9 (Killed); its last lines:\n"
              "  n-1/trainer-1 | 2\n"))
      << err_.str();
  EXPECT_TRUE(
      err_has("the whole log: paddlectl logs --node n-1 --job job1; go on from its last "
              "snapshot: paddlectl train --resume --name job1 w; next time, "
              "--restarts N starts it again by itself\n"))
      << err_.str();
}

TEST_F(CommandsTest, AProcessWithoutMemoryShowsWhatItHadAndWhatHelps) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name != "trainer-1") return;
    status.state = ProcessState::kKilled;
    status.signal = 9;
    status.out_of_memory_bytes = 3'100'000'000;
  };
  EXPECT_EQ(train(), 7);
  EXPECT_TRUE(
      err_has("error: trainer-1 on n-1 killed by the kernel: out of memory (it had 3.1 GB); its"))
      << err_.str();
  EXPECT_TRUE(err_has("hint: use a smaller batch_size or trainer_count, ")) << err_.str();
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
    expected += fmt::format("pass {}: held-out cost 0.5 (10 samples)\n", pass);
  EXPECT_TRUE(out_.str().starts_with(expected)) << out_.str();
  EXPECT_TRUE(err_has("245 earlier tests not shown\n")) << err_.str();
}

TEST_F(CommandsTest, DataThatCannotTrainIsNamedBeforeAnythingStarts) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/data/test.txt", "");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("every file that matches 'data/test.txt' in ")) << err_.str();
  fs::remove(folder_ + "/w/data/test.txt");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("no file matches 'data/test.txt' in ")) << err_.str();
  EXPECT_TRUE(err_has("or correct [data] test\n")) << err_.str();
  write("w/data/test.txt", "1\ta\n");
  write("w/data/train-00000", "");
  write("w/data/train-00001", "");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("every file that matches 'data/train-*' in ")) << err_.str();
}

TEST_F(CommandsTest, FewerDataFilesThanTrainersAreRefusedBeforeThePush) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const auto files = nodes_[0].files;
  EXPECT_EQ(run({"train", "--trainers", "3", "w"}), 6);
  EXPECT_TRUE(err_has("2 files match data/train-*, but there are 3 trainers\n")) << err_.str();
  EXPECT_TRUE(err_has("hint: --trainers 2, or make 3 files\n")) << err_.str();
  EXPECT_EQ(nodes_[0].files, files);
  // Enough of them, but each trainer takes those of its number.
  fs::rename(folder_ + "/w/data/train-00001", folder_ + "/w/data/train-00002");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("2 files match data/train-*, but 1 of 2 trainers gets none of them\n"))
      << err_.str();
  EXPECT_TRUE(err_has("hint: a file goes to trainer number mod 2: number them 0, 1, 2, ...\n"))
      << err_.str();
  // Files without numbers are read by all trainers, line by line in turn.
  for (const char* number : {"0", "2"}) fs::remove(folder_ + "/w/data/train-0000" + number);
  write("w/data/train-all", "1\ta\n0\tb\n");
  EXPECT_EQ(run({"train", "--trainers", "3", "w"}), 0) << err_.str();
}

TEST_F(CommandsTest, AJobThatTrainedEndsWellWhateverPassWasAskedFor) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pass", "3", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("warning: the nodes have no snapshot of pass 3 of job job1; they have "
              "pass-00000; train.snapshots_kept says how many stay; fetching the last\n"))
      << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/pass-00000/MANIFEST"));
  trainer_exit_ = 6;
  EXPECT_EQ(run({"train", "--pass", "3", "--name", "job2", "w"}), 6) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job2/node_0/server.log"));
}

TEST_F(CommandsTest, AResumedJobShowsOnlyTheTestsToCome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_TRUE(out_has("pass 1: held-out"));
  nodes_[0].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    std::string& metrics = fake.files["jobs/job1/node_0/metrics.jsonl"];
    const std::string before = metrics;
    started(fake, status);
    metrics = before;
    if (status.name == "trainer-0")
      metrics += "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.25}\n";
  };
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_FALSE(out_has("pass 1: ")) << out_.str();
  EXPECT_TRUE(out_has("pass 2: held-out cost 0.25")) << out_.str();
  EXPECT_TRUE(err_has("continuing after pass 1\n")) << err_.str();
}

TEST_F(CommandsTest, TheCauseOfAFailureIsPrintedOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_exit_ = 6;
  nodes_[0].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name != "trainer-0") return;
    status.failure = Error{Errc::kFailed, "train-00000:7: bad", "mend it"};
    fake.files[status.log] = "reading\npaddle: train-00000:7: bad\nhint: mend it\n";
  };
  EXPECT_EQ(train(), 6);
  const std::string told = err_.str();
  EXPECT_TRUE(
      err_has("exited with code 6: train-00000:7: bad; its last lines:\n"
              "  n-0/trainer-0 | reading\n"))
      << told;
  EXPECT_EQ(told.find("train-00000:7: bad"), told.rfind("train-00000:7: bad")) << told;
  EXPECT_EQ(told.find("mend it"), told.rfind("mend it")) << told;
}

TEST_F(CommandsTest, ResultsThatCouldNotBeWrittenAreNamedBeforeTheTraining) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--output", "c.toml", "w"}), 7);
  EXPECT_TRUE(err_has("hint: choose another --output")) << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(CommandsTest, ALimitForHangsNeedsRestartsAndThreeSeconds) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--name", "job1", "--stall-restarts-after", "9", "w"}), 2);
  EXPECT_TRUE(
      err_has("error: --stall-restarts-after does nothing without --restarts\n"
              "hint: add --restarts N: "))
      << err_.str();
  for (const char* const dry : {"", "--dry-run"}) {
    std::vector<std::string> few{"train", "--restarts", "1", "--stall-restarts-after", "2", "w"};
    if (*dry != '\0') few.emplace_back(dry);
    EXPECT_EQ(run(few), 2);
    EXPECT_TRUE(
        err_has("error: --stall-restarts-after 2: a process gives a sign of life each "
                "second, and a busy machine may delay it\n"
                "hint: give 3 or more, or 0 for never\n"))
        << err_.str();
  }
  EXPECT_TRUE(nodes_[0].processes.empty());
  for (const char* const good : {"0", "3"}) {
    ASSERT_EQ(run({"train", "--detach", "--restarts", "1", "--stall-restarts-after", good, "--name",
                   std::string("s") + good, "w"}),
              0)
        << err_.str();
    EXPECT_EQ(nodes_[0].specs["trainer-0"].hang_ms, 1000U * (*good - '0'));
    ASSERT_EQ(run({"stop", "--now"}), 0) << err_.str();
  }
  EXPECT_EQ(run({"train", "--stall-restarts-after", "0", "--name", "never", "w"}), 0) << err_.str();
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
