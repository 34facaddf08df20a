// status: rows of processes, warnings, and its watch.
#include <fmt/format.h>

#include "cli/job/settings.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AMistypedJobNamesTheLatestOnes) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (int i = 1; i <= 8; ++i) {
    ASSERT_EQ(run({"train", "--detach", "--name", fmt::format("k{}", i), "w"}), 0) << err_.str();
    ASSERT_EQ(run({"stop", "--now"}), 0) << err_.str();
  }
  EXPECT_EQ(run({"status", "k9"}), 2);
  EXPECT_TRUE(
      err_has("hint: the latest jobs here: k4, k5, k6, k7, k8; paddlectl jobs shows them all\n"))
      << err_.str();
}

TEST_F(CommandsTest, StatusOfAFailedJobHasItsCause) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("failure": null)")) << out_.str();
  trainer_exit_ = 6;
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "w"}), 0) << err_.str();
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  EXPECT_TRUE(out_has("\ntrainer-0 on n-0 exited with code 6")) << out_.str();
  EXPECT_TRUE(out_has("| bad record in data/train-00000:7\n")) << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("failure": "trainer-0 on n-0 exited with code 6)")) << out_.str();
  ASSERT_EQ(run({"stop", "--now"}), 0) << err_.str();
}

TEST_F(CommandsTest, StatusShowsTheTagsTheNoteAndTheCommitOfTheJob) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  for (const char* const word : {"tags: ", "note: ", "git: "}) EXPECT_FALSE(out_has(word)) << word;
  ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("tags": [], "note": "", "git": null)")) << out_.str();

  ASSERT_EQ(run({"train", "--detach", "--name=job2", "--tag=lr-test", "--tag=big",
                 "--note=half the rate", "w"}),
            0)
      << err_.str();
  std::string& kept = nodes_[0].files["jobs/job2/settings.jsonl"];
  auto settings = decode_settings(kept);
  ASSERT_TRUE(settings) << kept;
  settings->record.git = {std::string(40, 'a'), "main", true};
  kept = encode(*settings);
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has("tags: lr-test, big\nnote: half the rate\ngit: aaaaaaaaaaaa (main, with changes)\n"))
      << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has(R"("tags": ["lr-test", "big"], "note": "half the rate", "git": {"commit": "a)"))
      << out_.str();
}

// As `json.dumps` of Python writes what is not finite.
TEST_F(CommandsTest, StatusWarnsOfAProgramOfOnesOwnThatDiverges) {
  write("w/job.toml", "[trainer]\ncommand = [\"sh\", \"train.sh\"]\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  std::string& metrics = nodes_[0].files["jobs/job1/node_0/metrics.jsonl"];
  const auto write_costs = [&](const std::vector<std::string>& costs) {
    metrics.clear();
    for (std::size_t i = 0; i < costs.size(); ++i) {
      metrics += fmt::format("{{\"kind\": \"train\", \"pass\": 0, \"batch\": {}, \"cost\": {}}}\n",
                             i + 1, costs[i]);
    }
  };
  write_costs({"0.5", "0.4"});
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  EXPECT_FALSE(out_has("diverges")) << out_.str();
  for (const char* const cost : {"NaN", "-Infinity", "null"}) {
    write_costs({"0.5", "0.4", cost, cost});
    ASSERT_EQ(run({"status"}), 0) << err_.str();
    EXPECT_TRUE(out_has("\nwarning: training diverges: the cost is nan; ")) << out_.str();
    ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
    EXPECT_TRUE(out_has("\"diverged\": true")) << out_.str();
    EXPECT_TRUE(out_has("\"batch\": 4")) << out_.str();
    EXPECT_TRUE(out_has("\"cost\": null")) << out_.str();
    write_costs({"0.5", cost, "0.4"});
    ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
    EXPECT_TRUE(out_has("\"diverged\": false")) << out_.str();
  }
  ASSERT_EQ(run({"stop", "--now"}), 0) << err_.str();
}

TEST_F(CommandsTest, JsonWithoutACommandIsAnErrorInJson) {
  EXPECT_EQ(run({"--json"}), 2);
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(err_.str(),
            "{\"error\": {\"code\": 2, \"message\": \"no command was given\", \"hint\": \"see "
            "paddlectl --help\"}}\n");
  EXPECT_EQ(run({}), 2);
  EXPECT_TRUE(out_has("paddlectl up clusters/local.toml")) << out_.str();
}

TEST_F(CommandsTest, ANameThatNoJobCanHaveIsExplained) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (const char* const name : {"--name=-x", "--name=.x", "--name=a b", "--name=a/b"}) {
    EXPECT_EQ(run({"train", name, "w"}), 2) << name;
    EXPECT_TRUE(err_has("'.', '-' and '_', beginning with a letter or digit")) << err_.str();
  }
}

TEST_F(CommandsTest, StatusNamesWhatProcessesUseAndWhoIsSlow) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  const auto metrics = [](int rate) {
    return "{\"kind\":\"train\",\"pass\":2,\"batch\":7,\"cost\":0.25,\"examples_per_second\":" +
           std::to_string(rate) + ",\"unix_ms\":997000}\n";
  };
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] = metrics(1000);
  nodes_[1].files["jobs/job1/node_1/metrics.jsonl"] = metrics(250);
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.started_unix_ms = 900'000;
      status.usage = remote::Usage{200'000'000, 50'000, 3'000'000, 40'000, 999'000};
    }
  }
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(
      out_has("node  role       state    pass  done  batch  cost  examples/s  received   sent  "
              "memory  cores  last report  pid\n"))
      << out_.str();
  EXPECT_TRUE(
      out_has("n-0   trainer-0  running     3     -      7  0.25        1000    3.0 MB  40 kB  "
              "200 MB    0.5         1.0s  101\n"))
      << out_.str();
  EXPECT_TRUE(
      out_has("trainer-1 on n-1 is slow: 250 examples/s, 25 % of the others' median 1000\n"))
      << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(
      out_has(R"("received_bytes": 3000000, "sent_bytes": 40000, "received_per_second": null)"))
      << out_.str();
  EXPECT_TRUE(
      out_has(R"("slow": [{"node": "n-1", "role": "trainer-1", "examples_per_second": 250, )"))
      << out_.str();
}

TEST_F(CommandsTest, Trap45StatusTellsWhatTrainersGotOfGpusAndWhoSetIt) {
  using remote::VariableSource;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  const auto give = [&](const std::vector<remote::Variable>& variables) {
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& status : node.processes) {
        status.gpu_variables = variables;
        if (variables.size() < 2 || !status.name.starts_with("trainer-")) continue;
        status.gpu_variables.push_back({"FLAGS_selected_gpus", status.name.substr(8)});
      }
    }
  };
  give({{"NCCL_HOSTID", "10.0.0.1"}});
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_FALSE(out_has("NCCL_HOSTID")) << "a job without GPUs\n" << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has("\"gpu_variables\": []")) << out_.str();

  give({{"CUDA_VISIBLE_DEVICES", "0,1", VariableSource::kClusterFile},
        {"NCCL_DEBUG", "\033[31mINFO", VariableSource::kCommandLine},
        {"NCCL_HOSTID", "10.0.0.1"},
        {"NCCL_SOCKET_IFNAME", "ib0", VariableSource::kNode}});
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(
      out_has("\n"
              "variable              value         set by             trainers\n"
              "CUDA_VISIBLE_DEVICES  0,1           cluster file       trainer-[0-1]\n"
              "FLAGS_selected_gpus   0             paddlectl          trainer-0\n"
              "FLAGS_selected_gpus   1             paddlectl          trainer-1\n"
              "NCCL_DEBUG            \\x1b[31mINFO  --env              trainer-[0-1]\n"
              "NCCL_HOSTID           10.0.0.1      paddlectl          trainer-[0-1]\n"
              "NCCL_SOCKET_IFNAME    ib0           login environment  trainer-[0-1]\n"))
      << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"({"name": "FLAGS_selected_gpus", "value": "1", "set_by": "paddlectl", )"
                      R"("trainers": ["trainer-1"]})"))
      << out_.str();
}

TEST_F(CommandsTest, StatusTellsHowFarTheJobIsAndWhoWaitsForWhom) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.reports = true;
      status.progress.emplace();
      status.progress->unix_ms = node.usage.unix_ms - (status.name == "pserver-0" ? 0 : 20'000);
      if (status.name == "pserver-0") status.progress->awaited = {"trainer-1"};
      if (status.name.starts_with("pserver-")) continue;
      status.progress->pass = 1;
      status.progress->passes = 10;
      status.progress->pass_done = 0.41;
      status.progress->batch = 7;
      status.progress->cost = 6.1;
      status.progress->examples_per_second = 5031;
    }
  }
  for (ProcessStatus& status : nodes_[1].processes) {
    if (status.name == "pserver-1") status.progress->unix_ms = nodes_[1].usage.unix_ms;
  }
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_.str().starts_with("pass 2/10  41 %  cost 6.1\n")) << out_.str();
  EXPECT_TRUE(out_has("trainer-0  waits for trainer-1  2/10  41 %      7   6.1           0 "))
      << out_.str();
  EXPECT_TRUE(out_has("trainer-1  stalled 20s          2/10 ")) << out_.str();
  EXPECT_TRUE(
      out_has("trainer-1 on n-1 is stalled: no progress for 20s\n"
              "trainer-0 waits for trainer-1 (20s)\n"))
      << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("progress": {"pass": 1, "passes": 10, "pass_done": 0.41, )"))
      << out_.str();
  EXPECT_TRUE(out_has(R"("state": "running", "activity": "waiting", "silent_ms": 20000, )"
                      R"("waits_for": ["trainer-1"])"))
      << out_.str();
}

TEST_F(CommandsTest, StatusTellsOfASnapshotThatCouldNotBeSaved) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  const auto set_failure = [&](const std::string& failure) {
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& status : node.processes) {
        status.progress.emplace();
        if (status.name == "trainer-0") status.progress->save_failure = failure;
      }
    }
  };
  set_failure("");
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("save_failure": null)")) << out_.str();
  EXPECT_FALSE(out_has(R"("save_failure": ")")) << out_.str();
  set_failure("saving pass-00003: No space left");
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_has("last saved: pass 1")) << out_.str();
  for (const char* const file : {"pass-00000/MANIFEST", "pass-00002/MANIFEST", "pass-00003.tmp/w"})
    nodes_[0].files[std::string("jobs/job1/output/") + file] = "m";
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_has("last saved: pass 3")) << out_.str();
  EXPECT_TRUE(out_has("warning: trainer-0 on n-")) << out_.str();
  EXPECT_TRUE(out_has("saving pass-00003: No space left")) << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("save_failure": "saving pass-00003: No space left")")) << out_.str();
}

TEST_F(CommandsTest, StatusTellsOfADamagedSnapshotThatWasPassedOver) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.progress.emplace();
      if (status.name == "trainer-0")
        status.progress->restored_from = "pass-1, since pass-2 is damaged";
    }
  }
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_has("continued from pass-1, since pass-2 is damaged")) << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("restored_from": null)")) << out_.str();
  EXPECT_TRUE(out_has(R"("restored_from": "pass-1, since pass-2 is damaged")")) << out_.str();
}

TEST_F(CommandsTest, StatusAsJsonSaysWhenProcessesEndedAndHow) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  nodes_[0].processes.front().restarts = {{0, 9, 500, 1}, {4, 0, 900, 0}};
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("restarts": [{"ended_unix_ms": 500, "exit_code": null, "signal": 9, )"
                      R"("failures": 1}, {"ended_unix_ms": 900, "exit_code": 4, "signal": null, )"
                      R"("failures": 0}])"))
      << out_.str();
}

TEST_F(CommandsTest, StatusOfAKilledJobFitsANarrowTerminal) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.state = ProcessState::kKilled;
      status.signal = 9;
      status.progress.emplace();
      status.progress->pass = 109;
      status.progress->passes = 3000;
      status.progress->pass_done = 0.41;
      status.progress->cost = 0.375421;
    }
  }
  for (const std::size_t columns : {80U, 60U}) {
    console_options_.columns = columns;
    ASSERT_EQ(run({"status"}), 0);
    EXPECT_TRUE(out_has("killed by signal 9 (Killed)")) << out_.str();
    EXPECT_TRUE(out_has("110/3000")) << out_.str();
    std::istringstream lines(out_.str());
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), columns) << line;
  }
}

TEST_F(CommandsTest, WatchingShowsRatesAndEndsWithTheJob) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.usage = remote::Usage{1000, 0, 0, 0, 0};
    }
  }
  int pauses = 0;
  on_pause_ = [&] {
    for (FakeNode& node : nodes_) {
      node.usage.unix_ms += 2000;
      for (ProcessStatus& status : node.processes) {
        status.usage->received_bytes = 10'000;
        status.usage->cpu_ms = 3000;
        if (pauses == 1) status.state = ProcessState::kExited;
      }
    }
    ++pauses;
  };
  ASSERT_EQ(run({"status", "--watch"}), 0) << err_.str();
  EXPECT_EQ(pauses, 2);
  EXPECT_TRUE(out_has("5.0 kB ")) << out_.str();
  EXPECT_TRUE(out_has(" 1.5 ")) << out_.str();
}

// A job whose first failure is a process killed by signal 9, after which the others lost it.
class KilledJob : public CommandsTest {
 protected:
  void kill(const std::string& name) {
    ASSERT_EQ(run({"up", "c.toml"}), 0);
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) {
        const bool is_killed = process.name == name;
        process.state = is_killed ? ProcessState::kKilled : ProcessState::kExited;
        process.signal = is_killed ? 9 : 0;
        process.exit_code = is_killed ? 0 : static_cast<int>(Errc::kUnreachable);
        process.ended_unix_ms = is_killed ? 700 : 600;
        if (is_killed) node.files[process.log] = "1\n2\n3\n4\n";
      }
    }
  }
};

TEST_F(KilledJob, HasItsCauseInStatus) {
  kill("trainer-0");
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has("\ntrainer-0 on n-0 killed by signal 9 (Killed); last lines:\n"
              "  n-0/trainer-0 | 2\n  n-0/trainer-0 | 3\n  n-0/trainer-0 | 4\n"))
      << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("failure": "trainer-0 on n-0 killed by signal 9 (Killed); last lines:\n)"))
      << out_.str();
}

TEST_F(KilledJob, HasThePserverAsItsCauseAndNotTheTrainersThatLostIt) {
  kill("pserver-1");
  ASSERT_EQ(run({"status"}), 0) << err_.str();
  EXPECT_TRUE(out_has("\npserver-1 on n-1 killed by signal 9 (Killed); last lines:\n"))
      << out_.str();
  EXPECT_FALSE(out_has("\ntrainer-0 on n-0 exited")) << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("failure": "pserver-1 on n-1 killed by signal 9)")) << out_.str();
}

TEST_F(CommandsTest, StatusOfAStoppedJobHasNoFailure) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  for (const bool is_now : {false, true}) {
    ASSERT_EQ(run({"train", "--detach", "--name", is_now ? "job2" : "job1", "w"}), 0) << err_.str();
    for (FakeNode& node : nodes_) node.ended_exit = static_cast<int>(Errc::kInterrupted);
    ASSERT_EQ(
        run(is_now ? std::vector<std::string>{"stop", "--now"} : std::vector<std::string>{"stop"}),
        0)
        << err_.str();
    ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
    EXPECT_TRUE(out_has(R"("failure": null)")) << out_.str();
    ASSERT_EQ(run({"status"}), 0) << err_.str();
    EXPECT_FALSE(out_has("last lines:")) << out_.str();
  }
}

}  // namespace
}  // namespace paddle::cli
