// status, logs, metrics, report and what else only looks at a job.
#include <fmt/format.h>

#include "base/fd.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, StatusLogsStopAndTeardownOfARunningJob) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "job1\n");
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_has("trainer-1")) << out_.str();
  ASSERT_EQ(run({"logs", "--node", "n-1", "--role", "trainer", "--tail", "1"}), 0);
  EXPECT_EQ(out_.str(), "n-1/trainer-1 | bad record in data/train-00000:7\n");
  EXPECT_EQ(run({"logs", "--node", "n-7"}), 2);
  EXPECT_EQ(run({"status", "--job", "other"}), 2);
  EXPECT_TRUE(err_has("jobs here: job1"));
  nodes_[0].asked_exit = -1;
  EXPECT_EQ(run({"stop"}), 1);
  EXPECT_TRUE(err_has("waiting for trainer-0 to save; paddlectl stop --now ends it immediately"))
      << err_.str();
  EXPECT_TRUE(
      err_has("error: job1 was asked to stop 600 s ago and still runs\n"
              "hint: end it immediately: paddlectl stop --now --job job1\n"))
      << err_.str();
  EXPECT_EQ(nodes_[0].processes.front().state, ProcessState::kRunning);
  ASSERT_EQ(run({"stop", "--now"}), 0);
  EXPECT_TRUE(out_has("3 processes stopped")) << out_.str();
  nodes_[1].remaining = {"pid 7: not ours to end"};
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 1);
  EXPECT_TRUE(err_has("node n-1: these remain:\n  pid 7"));
  nodes_[1].remaining.clear();
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0);
  EXPECT_TRUE(nodes_[0].torn_down);
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, LookingAtATornDownClusterBringsNothingBack) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0);
  EXPECT_EQ(run({"status", "--cluster", "c.toml"}), 2);
  EXPECT_TRUE(err_has("node n-0: nothing of this cluster is there")) << err_.str();
  EXPECT_TRUE(err_has("hint: prepare the nodes: paddlectl up")) << err_.str();
  EXPECT_EQ(run({"teardown", "--cluster", "c.toml", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

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

TEST_F(CommandsTest, LogsOfThePreviousLifeEndWhereTheLastOneStarts) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  EXPECT_EQ(run({"logs", "--previous"}), 2);
  EXPECT_TRUE(err_has("job job1 has no earlier start")) << err_.str();
  for (ProcessStatus& process : nodes_[0].processes) {
    if (process.name == "trainer-0") process.life = 3;
  }
  nodes_[0].files["jobs/job1/node_0/train.log"] =
      "one\npaddlectl: start 2\ntwo\nlast words\npaddlectl: start 3\nthree\n";
  ASSERT_EQ(run({"logs", "--previous"}), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      "n-0/trainer-0 | paddlectl: start 2\nn-0/trainer-0 | two\nn-0/trainer-0 | last words\n");
  EXPECT_EQ(run({"logs", "--previous", "-f"}), 2);
}

TEST_F(CommandsTest, LogsOfNobodyAreAMistake) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  EXPECT_EQ(run({"logs", "--role", "pserver-9"}), 2);
  EXPECT_TRUE(err_has("job job1 has no 'pserver-9'")) << err_.str();
  EXPECT_EQ(run({"logs", "--role", "pserv"}), 2);
}

TEST_F(CommandsTest, LogsComeInOrderOfTimeByTheFirstNodesClock) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  const std::string first = "jobs/job1/node_0/train.log";
  const std::string second = "jobs/job1/node_1/train.log";
  nodes_[0].files[first] = "a1\na2\nlast";
  nodes_[0].times[first] = {{0, 1000}, {3, 3000}};
  nodes_[1].files[second] = "b1\nb2 error\n";
  nodes_[1].times[second] = {{0, 3'602'000}, {3, 3'604'000}};
  nodes_[1].usage.unix_ms = nodes_[0].usage.unix_ms + 3'600'000;  // an hour ahead
  ASSERT_EQ(run({"logs", "--role", "trainer"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "n-0/trainer-0 | a1\nn-1/trainer-1 | b1\nn-0/trainer-0 | a2\nn-0/trainer-0 | last\n"
            "n-1/trainer-1 | b2 error\n");
  ASSERT_EQ(run({"logs", "--role", "trainer", "--grep", "^(a2|b.*(err|x))"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | a2\nn-1/trainer-1 | b2 error\n");
  nodes_[0].usage.unix_ms = 5000;
  nodes_[1].usage.unix_ms = 3'605'000;
  ASSERT_EQ(run({"logs", "--role", "trainer", "--since", "2s"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | a2\nn-0/trainer-0 | last\nn-1/trainer-1 | b2 error\n");
  ASSERT_EQ(run({"logs", "-f", "--since", "1970-01-01T00:00:02Z", "--role", "trainer-0"}), 0);
  EXPECT_EQ(out_.str(), "n-0/trainer-0 | a2\nn-0/trainer-0 | last\n");
  EXPECT_EQ(run({"logs", "--since", "yesterday"}), 2);
  EXPECT_TRUE(err_has("hint: write 90s, 10m")) << err_.str();
  EXPECT_EQ(run({"logs", "--grep", "("}), 2);
  EXPECT_TRUE(err_has("--grep '(': Unmatched")) << err_.str();
  EXPECT_EQ(run({"logs", "--since", "1h", "--tail", "1"}), 2);
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
  EXPECT_TRUE(out_.str().starts_with("pass 2/10  41 %  0/s  cost 6.1\n")) << out_.str();
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
        status.progress->went_back = "pass-1, since pass-2 is damaged";
    }
  }
  ASSERT_EQ(run({"status"}), 0);
  EXPECT_TRUE(out_has("went on from pass-1, since pass-2 is damaged")) << out_.str();
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("went_back": null)")) << out_.str();
  EXPECT_TRUE(out_has(R"("went_back": "pass-1, since pass-2 is damaged")")) << out_.str();
}

TEST_F(CommandsTest, StatusAsJsonSaysWhenLivesEndedAndHow) {
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

TEST_F(CommandsTest, MetricsAreJsonLinesOrPrometheusText) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      "{\"kind\":\"train\",\"pass\":1,\"batch\":5,\"cost\":0.5,\"auc\":0.7,\"unix_ms\":2000}"
      "\ngarbage\n";
  nodes_[1].files["jobs/job1/node_1/metrics.jsonl"] =
      "{\"kind\":\"train\",\"pass\":1,\"batch\":4,\"cost\":0.25,\"unix_ms\":1000}\n";
  nodes_[0].files["jobs/job1/node_0/server-metrics.jsonl"] =
      "{\"kind\":\"pserver\",\"port\":7164,\"rows\":3,\"bytes\":48,\"pushes\":6,\"lags\":[1,2,3],"
      "\"unix_ms\":3000}\n";
  ASSERT_EQ(run({"metrics"}), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      "{\"node\":\"n-1\",\"role\":\"trainer-1\",\"kind\":\"train\",\"pass\":1,\"batch\":4,"
      "\"cost\":0.25,\"unix_ms\":1000}\n"
      "{\"node\":\"n-0\",\"role\":\"trainer-0\",\"kind\":\"train\",\"pass\":1,\"batch\":5,"
      "\"cost\":0.5,\"auc\":0.7,\"unix_ms\":2000}\n"
      "{\"node\":\"n-0\",\"role\":\"pserver-0\",\"kind\":\"pserver\",\"port\":7164,\"rows\":3,"
      "\"bytes\":48,\"pushes\":6,\"lags\":[1,2,3],\"unix_ms\":3000}\n");
  ASSERT_EQ(run({"metrics", "--format", "prometheus"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has("# HELP paddle_trainer_cost mean cost since the pass began\n"
              "# TYPE paddle_trainer_cost gauge\n"
              "paddle_trainer_cost{job=\"job1\",node=\"n-0\",role=\"trainer-0\"} 0.5\n"
              "paddle_trainer_cost{job=\"job1\",node=\"n-1\",role=\"trainer-1\"} 0.25\n"))
      << out_.str();
  EXPECT_TRUE(out_has("role=\"trainer-0\",evaluator=\"auc\"} 0.6999")) << out_.str();
  EXPECT_TRUE(
      out_has("paddle_pserver_lag_bucket{job=\"job1\",node=\"n-0\",role=\"pserver-0\","
              "port=\"7164\",le=\"3\"} 6\n"))
      << out_.str();
  EXPECT_EQ(run({"metrics", "--format", "xml"}), 2);
}

TEST_F(CommandsTest, AReportIsMadeAtTheEndAndAtAnyTimeAndWithoutTheNodes) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  EXPECT_TRUE(err_has("report: output/job1/report.html\n")) << err_.str();
  const std::string page = *read_file(folder_ + "/output/job1/report.html");
  EXPECT_NE(page.find("held-out cost 0.5"), std::string::npos);
  EXPECT_NE(page.find("size = 4"), std::string::npos) << "the configuration";
  ASSERT_EQ(run({"report", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"report\": \"" + folder_ +
                            "/output/job1/report.html\", \"scalars\": 2}\n");
  for (FakeNode& node : nodes_) node.unreachable = true;
  fs::remove(folder_ + "/output/job1/report.html");
  ASSERT_EQ(run({"report", "job1"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "output/job1/report.html\n");
  EXPECT_TRUE(err_has("from what is in output/job1, without the nodes")) << err_.str();
  EXPECT_EQ(run({"report", "other"}), 4);
  EXPECT_EQ(run({"report", "../x"}), 2);
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

TEST_F(CommandsTest, FollowingEndsWhenNobodyReads) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(run({"logs", "-f"}), 0);
  out_.clear();
}

TEST_F(CommandsTest, StopLetsTrainersSaveUnlessItIsNow) {
  trainer_state_ = ProcessState::kRunning;
  const auto exit_codes = [&] {
    std::vector<int> codes;
    for (const FakeNode& node : nodes_) {
      for (const ProcessStatus& process : node.processes) {
        if (process.name.starts_with("trainer-")) codes.push_back(process.exit_code);
      }
    }
    return codes;
  };
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"stop", "--now"}), 0) << err_.str();
  EXPECT_TRUE(running().empty());
  EXPECT_EQ(exit_codes(), (std::vector<int>{0, 0})) << "nobody asked them to save";
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"stop"}), 0) << err_.str();
  EXPECT_TRUE(running().empty());
  EXPECT_EQ(exit_codes(), (std::vector<int>{0, 75, 0, 75}));
}

TEST_F(CommandsTest, AStopThatCouldNotSaveIsNoSuccess) {
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& process : node.processes) {
      if (process.name == "trainer-0")
        process.failure =
            Error{Errc::kResource, "write pass-00001.tmp/w: No space left", "make room"};
    }
    node.asked_exit = static_cast<int>(Errc::kResource);
  }
  EXPECT_EQ(run({"stop"}), 7);
  EXPECT_TRUE(running().empty());
  EXPECT_NE(err_.str().find("trainer-0 on"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("No space left"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("make room"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"jobs"}), 0);
  EXPECT_NE(out_.str().find("failed: trainer-0 exited with code 7"), std::string::npos)
      << out_.str();
}

TEST_F(CommandsTest, TeardownForgetsTheClusterOfThisDirectory) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, FollowingLogsBeginsWithTheLastTwentyLines) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  for (FakeNode& node : nodes_) {
    for (const ProcessStatus& process : node.processes) {
      node.files[process.log].clear();
      if (process.name != "pserver-0") continue;
      for (int i = 0; i < 30; ++i) node.files[process.log] += fmt::format("line {:02}\n", i);
    }
  }
  ASSERT_EQ(run({"logs", "-f", "--role", "pserver-0"}), 0) << err_.str();
  EXPECT_FALSE(out_has("line 09")) << out_.str();
  EXPECT_TRUE(out_has("line 10")) << out_.str();
  ASSERT_EQ(run({"logs", "-f", "--tail", "3", "--role", "pserver-0"}), 0);
  EXPECT_FALSE(out_has("line 26"));
  EXPECT_TRUE(out_has("line 27")) << out_.str();
  ASSERT_EQ(run({"logs", "--role", "pserver-0"}), 0);
  EXPECT_TRUE(out_has("line 00")) << "all of it without -f";
}

}  // namespace
}  // namespace paddle::cli
