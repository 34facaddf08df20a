// The commands a user types, with real processes on local nodes: from a template's text to trained
// parameters, and out of every kind of trouble with nothing left behind.
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManyPasses = "train.passes=1000000";

// For each place where the pattern matches: the whole and its groups.
std::vector<std::vector<std::string>> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::vector<std::string>> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    found.emplace_back(at->begin(), at->end());
  }
  return found;
}

class CliLocal : public testing::Test {
 protected:
  // quick_start with data, on a cluster that is up.
  void prepare_quick_start(const std::string& shards = "2") {
    cluster.copy_template("quick_start");
    const Outcome prepared =
        cluster.prepare("quick_start", {"--shards", shards}, labelled_texts(400));
    ASSERT_EQ(prepared.code, 0) << prepared.output;
    const Outcome up = cluster.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }
  // A job that ends only when somebody ends it; its first pass is over.
  Process start_endless(const std::string& name) {
    Process train = cluster.start({"train", "--trainers", "2", "--pservers", "2", "--name", name,
                                   "--set", kManyPasses, "--set", "train.saving_period=0", "--set",
                                   "train.batch_size=1", "quick_start"});
    EXPECT_TRUE(train.prints("held-out cost ")) << train.output();
    return train;
  }
  void expect_clean_teardown() {
    const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(down.code, 0) << down.output;
    EXPECT_TRUE(cluster.nothing_left());
  }

  LocalCluster cluster{2};
};

// Pservers, ranks, heartbeats, ports and links of nodes that have addresses of IPv6 alone.
TEST_F(CliLocal, TrainsOverIPv6) {
  if (TemporaryFolder::read("/proc/net/if_inet6").find("0001 ") == std::string::npos)
    GTEST_SKIP() << "no IPv6 on this machine's loopback";
  const std::string file = cluster.folder() / "cluster.toml";
  cluster.folder().write("cluster.toml", TemporaryFolder::read(file) + "address = \"[0:0::1]\"\n");
  prepare_quick_start();
  const Outcome check = cluster.run({"check"});
  EXPECT_EQ(check.code, 0) << check.output;
  EXPECT_TRUE(check.says("::1")) << check.output;
  const Outcome train = cluster.run({"train", "--trainers", "2", "--pservers", "2", "--name", "six",
                                     "--set", "train.passes=1", "quick_start"});
  EXPECT_EQ(train.code, 0) << train.output;
  const std::string processes =
      TemporaryFolder::read(cluster.folder() / "output/six/processes.jsonl");
  EXPECT_NE(processes.find("[::1]:"), std::string::npos) << processes;
  const Outcome group =
      cluster.run({"train", "--trainers", "2", "--pservers", "1", "--name", "ring", "--set",
                   "train.passes=1", "--set", "strategy.dense=collective", "quick_start"});
  EXPECT_EQ(group.code, 0) << group.output;
  expect_clean_teardown();
}

TEST_F(CliLocal, QuickStartFromTextToSnapshotsAndAway) {
  prepare_quick_start("3");
  const Outcome train =
      cluster.run({"train", "--trainers", "3", "--pservers", "2", "--name", "job", "quick_start"});
  ASSERT_EQ(train.code, 0) << train.output;
  const std::vector<double> costs = held_out_costs(train.output);
  ASSERT_EQ(costs.size(), 3U) << train.output;
  EXPECT_LT(costs[1], costs[0]);
  EXPECT_LT(costs[2], costs[1]);
  EXPECT_TRUE(train.says("files in output/job\n")) << train.output;
  for (const char* file :
       {"pass-00002/MANIFEST", "node_0/server.log", "node_0/train.log", "node_0/train-1.log",
        "node_0/metrics.jsonl", "node_0/server-metrics.jsonl", "node_1/server.log",
        "node_1/train.log", "job.toml", "processes.jsonl"}) {
    EXPECT_GT(TemporaryFolder::read(cluster.folder() / (std::string("output/job/") + file)).size(),
              0U)
        << file;
  }
  const std::string page = TemporaryFolder::read(cluster.folder() / "output/job/report.html");
  for (const char* text : {"Parameter servers", "\"lags\": [", "snapshot pass-00002",
                           "held-out cost", "\"cpu_ms\":", "--trainer_id=2", "\"processor\": \"",
                           "paddlectl train --trainers 3 --pservers 2 --name job quick_start"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(page.find("{root}"), std::string::npos) << "a placeholder of the supervisor";
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/tensorboard"));
  EXPECT_TRUE(cluster.run({"metrics"}).says("job_name=\"job\"} 0\n")) << "paddle_job_running";
  EXPECT_TRUE(
      cluster.run({"logs", "--metrics", "--role", "trainer-0"}).says("\"examples_per_second\":"));
  // The job is over, yet its nodes still answer for it.
  const Outcome status = cluster.run({"status"});
  EXPECT_EQ(status.code, 0);
  EXPECT_TRUE(status.says("trainer-2  done")) << status.output;
  EXPECT_TRUE(status.says(" MB")) << "peak memory, from the exit record: " << status.output;
  EXPECT_TRUE(cluster.run({"logs", "--role", "trainer-0"}).says("n-0/trainer-0 | "));
  EXPECT_TRUE(cluster.run({"fetch"}).says(" (0 new) in output/job"));
  EXPECT_TRUE(cluster.all_gone());
  expect_clean_teardown();
}

TEST_F(CliLocal, JobsShowsAFinishedAndARunningJob) {
  prepare_quick_start();
  ASSERT_EQ(cluster
                .run({"train", "--trainers", "1", "--pservers", "2", "--name", "short", "--set",
                      "train.passes=2", "quick_start"})
                .code,
            0);
  const auto fetched = [&](const std::string& file) {
    return TemporaryFolder::read(cluster.folder() / ("output/short/" + file));
  };
  EXPECT_NE(fetched("job.toml").find("passes = 2"), std::string::npos) << fetched("job.toml");
  EXPECT_EQ(fetched("pass-00001/job.toml"), fetched("job.toml")) << "what the trainer has read";
  EXPECT_EQ(fetched("processes.jsonl").find("--set"), std::string::npos) << "nodes know no --set";
  Process endless = start_endless("endless");
  const Outcome jobs = cluster.run({"jobs"});
  EXPECT_EQ(jobs.code, 0) << jobs.output;
  EXPECT_FALSE(
      matches(jobs.output, R"(short +done +\S+ +1 x 2 +2 of 2 +0\.\d+ +0\.\d+ +\S+ .?B)").empty())
      << jobs.output;
  EXPECT_FALSE(
      matches(jobs.output, R"(endless +running +\S+ +2 x 2 +\d+ of 1000000 +0\.\d+ +0\.\d+ )")
          .empty())
      << jobs.output;
  const Outcome json = cluster.run({"jobs", "--json"});
  EXPECT_TRUE(json.says(R"([{"job": "short", "state": "done", "age_seconds": )")) << json.output;
  EXPECT_TRUE(json.says(R"("note": "", "git": null}, {"job": "endless", "state": "running", )"))
      << json.output;
  EXPECT_EQ(cluster.run({"stop", "--now", "--job", "endless"}).code, 0);
  EXPECT_TRUE(cluster.run({"jobs"}).says("endless  stopped"));
  endless.wait(std::chrono::seconds(30));
  expect_clean_teardown();
}

TEST_F(CliLocal, Word2VecLearnsFromPlainText) {
  cluster.copy_template("word2vec");
  const Outcome prepared = cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300));
  ASSERT_EQ(prepared.code, 0) << prepared.output;
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Outcome train =
      cluster.run({"train", "--trainers", "4", "--pservers", "2", "--name", "job", "word2vec"});
  ASSERT_EQ(train.code, 0) << train.output;
  const std::vector<double> costs = held_out_costs(train.output);
  ASSERT_EQ(costs.size(), 3U) << train.output;
  EXPECT_LT(costs[1], costs[0]);
  EXPECT_LT(costs[2], costs[1]);
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/pass-00002/MANIFEST"));
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/pass-00002/_output.w0"));
  expect_clean_teardown();
}

// `paddlectl plan` foretells the blocks that the pservers later say they hold.
TEST_F(CliLocal, PlanNamesThePortsThatLaterHoldTheBlocks) {
  cluster.copy_template("word2vec");
  ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(60)).code, 0);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const std::vector<std::string> job{"--pservers", "2",     "--trainers",
                                     "2",          "--set", "strategy.min_block_size=3000"};
  std::vector<std::string> arguments{"--json", "plan", "word2vec"};
  arguments.insert(arguments.end(), job.begin(), job.end());
  const Outcome plan = cluster.run(arguments);
  ASSERT_EQ(plan.code, 0) << plan.output;
  EXPECT_TRUE(cluster.all_gone());
  const auto ports = matches(
      plan.output, R"re("port":"127\.0\.0\.1:(\d+)","node":"n-\d","kind":"dense","bytes":(\d+))re");
  const auto blocks =
      matches(plan.output, R"re("elements":\d+,"bytes":(\d+),"port":"127\.0\.0\.1:(\d+)")re");
  ASSERT_EQ(ports.size(), 2U) << plan.output;
  EXPECT_GT(blocks.size(), 4U);  // the hidden layer's matrix is cut in two
  std::set<std::string> foretold;
  for (const auto& port : ports) {
    const auto held = std::ranges::count(blocks, port[1], [](const auto& one) { return one[2]; });
    foretold.insert(fmt::format("port {} holds {} blocks, {} bytes", port[1], held, port[2]));
  }
  arguments = {"train", "--name", "job", "--set", "train.passes=1", "word2vec"};
  arguments.insert(arguments.end(), job.begin(), job.end());
  const Outcome train = cluster.run(arguments);
  ASSERT_EQ(train.code, 0) << train.output;
  std::set<std::string> held;
  for (const char* node : {"node_0", "node_1"}) {
    const std::string log = TemporaryFolder::read(
        cluster.folder() / (std::string("output/job/") + node + "/server.log"));
    for (const auto& line : matches(log, R"re((port \d+ holds \d+ blocks, \d+ bytes))re")) {
      held.insert(line[1]);
    }
  }
  EXPECT_EQ(held, foretold);
  expect_clean_teardown();
}

TEST_F(CliLocal, Trap11AKilledPserverEndsTheJobAndIsNamed) {
  prepare_quick_start();
  Process train = start_endless("job");
  const int pserver = cluster.find_engine("--pserver_id=1");
  ASSERT_GT(pserver, 0);
  ASSERT_EQ(::kill(pserver, SIGKILL), 0);
  EXPECT_EQ(train.wait(), 1) << train.output();
  EXPECT_NE(train.output().find("error: pserver-1 on n-1 killed by signal 9"), std::string::npos)
      << train.output();
  EXPECT_TRUE(cluster.all_gone());
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/node_1/server.log"));
  EXPECT_TRUE(cluster.run({"status"}).says("killed by signal 9"));
  expect_clean_teardown();
}

TEST_F(CliLocal, AJobOutlivesPaddlectlAndAttachFindsIt) {
  prepare_quick_start();
  Process train = start_endless("job");
  train.signal(SIGKILL);
  ASSERT_EQ(train.wait(), 128 + SIGKILL);
  Process attach = cluster.start({"attach"});
  EXPECT_TRUE(attach.prints("held-out cost ")) << attach.output();
  attach.signal(SIGINT);
  EXPECT_EQ(attach.wait(), 130) << attach.output();
  EXPECT_NE(attach.output().find("detached from job; it keeps running"), std::string::npos)
      << attach.output();
  EXPECT_EQ(attach.output().find("Ctrl-C saves"), std::string::npos) << "it has detached";
  const Outcome status = cluster.run({"status", "--json"});
  EXPECT_TRUE(status.says("\"role\": \"trainer-0\", \"state\": \"running\"")) << status.output;
  EXPECT_FALSE(status.says("\"received_bytes\": 0,")) << status.output;
  // The next job runs beside it, on other ports.
  const Outcome second = cluster.run({"train", "--trainers", "1", "--pservers", "1", "--name",
                                      "next", "--set", "train.passes=1", "quick_start"});
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_TRUE(second.says("job is running on these nodes")) << second.output;
  EXPECT_EQ(cluster.run({"train", "--name", "job", "quick_start"}).code, 2);
  expect_clean_teardown();
}

TEST_F(CliLocal, ADetachedJobIsBroughtHomeByAttach) {
  prepare_quick_start();
  const Outcome detached =
      cluster.run({"train", "--detach", "--name", "job", "--set", "train.passes=1", "quick_start"});
  ASSERT_EQ(detached.code, 0) << detached.output;
  EXPECT_TRUE(cluster.all_gone()) << "pservers end when their trainers have left";
  const Outcome attach = cluster.run({"attach"});
  EXPECT_EQ(attach.code, 0) << attach.output;
  EXPECT_EQ(held_out_costs(attach.output).size(), 1U) << attach.output;
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/pass-00000/MANIFEST"));
  EXPECT_TRUE(cluster.all_gone());
  expect_clean_teardown();
}

TEST_F(CliLocal, CtrlCSavesTheJobAndItGoesOnFromAnywhere) {
  prepare_quick_start();
  Process train = start_endless("job");
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(), 75) << train.output();
  EXPECT_NE(train.output().find("paddlectl train --resume --name job"), std::string::npos)
      << train.output();
  EXPECT_TRUE(cluster.all_gone());
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/node_0/train.log"));
  // The snapshot is here, so even the nodes may forget it; now with one pserver.
  expect_clean_teardown();
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  Process again = cluster.start({"train", "--resume", "--name", "job", "--trainers", "2",
                                 "--pservers", "1", "--set", kManyPasses, "quick_start"});
  EXPECT_TRUE(again.prints("held-out cost ")) << again.output();
  EXPECT_NE(again.output().find("continuing in pass "), std::string::npos) << again.output();
  EXPECT_EQ(cluster.run({"stop"}).code, 0);
  EXPECT_EQ(again.wait(), 75) << again.output();
  const std::string log = TemporaryFolder::read(cluster.folder() / "output/job/node_0/train.log");
  EXPECT_TRUE(std::regex_search(log, std::regex("continuing in pass [1-9]"))) << log;
  expect_clean_teardown();
}

TEST_F(CliLocal, ASecondCtrlCEndsTheJobAtOnce) {
  prepare_quick_start();
  Process train = start_endless("job");
  // A trainer that cannot answer: the others wait for it, and for its part of the round.
  const int trainer = cluster.find_engine("--trainer_id=1");
  ASSERT_GT(trainer, 0);
  ::kill(trainer, SIGSTOP);
  train.signal(SIGINT);
  ASSERT_TRUE(train.prints("asking the job to stop and to save")) << train.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(), 130) << train.output();
  EXPECT_NE(train.output().find("interrupted: job is stopped"), std::string::npos)
      << train.output();
  EXPECT_EQ(train.output().find("Ctrl-C again"), train.output().rfind("Ctrl-C again"))
      << train.output();
  EXPECT_TRUE(cluster.all_gone());
  expect_clean_teardown();
}

// The agents of a command, which are its child processes on local nodes.
std::vector<int> agents_of(const Process& command) {
  std::vector<int> agents;
  std::error_code ignored;
  const fs::path tasks = "/proc/" + std::to_string(command.pid()) + "/task";
  for (const auto& task : fs::directory_iterator(tasks, ignored)) {
    std::istringstream list(TemporaryFolder::read((task.path() / "children").string()));
    for (int pid = 0; list >> pid;) agents.push_back(pid);
  }
  return agents;
}

TEST_F(CliLocal, ACtrlCThatLeavesAtOnceSaysThatProcessesMayStillRun) {
  prepare_quick_start();
  Process train = start_endless("job");
  const std::vector<int> agents = agents_of(train);
  ASSERT_FALSE(agents.empty());
  const int trainer = cluster.find_engine("--trainer_id=1");
  ASSERT_GT(trainer, 0);
  ::kill(trainer, SIGSTOP);
  train.signal(SIGINT);
  ASSERT_TRUE(train.prints("asking the job to stop and to save")) << train.output();
  for (const int agent : agents) ::kill(agent, SIGSTOP);  // nothing can be stopped from here now
  // Two signals of one kind that come at once are one.
  for (int times = 0; times < 2; ++times, ::poll(nullptr, 0, 300)) train.signal(SIGINT);
  EXPECT_EQ(train.wait(), 130) << train.output();
  for (const int agent : agents) ::kill(agent, SIGCONT);
  ::kill(trainer, SIGCONT);
  EXPECT_NE(train.output().find("exited immediately; paddlectl jobs shows what runs on the nodes"),
            std::string::npos)
      << train.output();
  expect_clean_teardown();
}

TEST_F(CliLocal, TeardownEndsARunningJob) {
  prepare_quick_start();
  Process train = start_endless("job");
  train.signal(SIGKILL);
  ASSERT_EQ(train.wait(), 128 + SIGKILL);
  expect_clean_teardown();
}

// As $HOME does with the default workdir.
TEST_F(CliLocal, GetOfAFolderThatHoldsOurOwnCopiesNoCopies) {
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  cluster.folder().write("nodes/theirs", "theirs");
  const Outcome got = cluster.run({"get", cluster.folder() / "nodes", "got"});
  EXPECT_EQ(got.code, 0) << got.output;
  for (const char* node : {"got/n-0", "got/n-1"}) {
    EXPECT_EQ(TemporaryFolder::read((cluster.folder() / node) + "/nodes/theirs"), "theirs");
  }
  for (const auto& entry : fs::recursive_directory_iterator(cluster.folder() / "got")) {
    EXPECT_NE(entry.path().filename(), ".paddlectl-copies") << entry.path();
  }
  fs::remove(cluster.folder() / "nodes/theirs");
  const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(down.code, 0) << down.output;
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(CliLocal, WrongInputIsNamedWithTheWayOut) {
  const auto refused = [this](int code, const std::vector<std::string>& arguments,
                              const std::string& text) {
    const Outcome outcome = cluster.run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_TRUE(outcome.says(text)) << outcome.output;
  };
  cluster.copy_template("quick_start");
  refused(2, {"train", "quick_start"}, "hint: run `paddlectl up cluster.toml` here first");
  refused(2, {"up", "missing.toml"}, "cannot find cluster file 'missing.toml'");
  cluster.folder().write("typo.toml",
                         "name = \"t\"\nprot = 7164\n[[node]]\nlauncher = \"local\"\n");
  refused(2, {"up", "typo.toml"},
          "typo.toml:2:1: unknown key 'prot', did you mean 'port'?\n  prot = 7164\n  ^\n");
  {
    const UniqueFd taken = listen_on(static_cast<std::uint16_t>(cluster.first_port()));
    ASSERT_TRUE(taken);
    refused(7, {"up", "cluster.toml"},
            fmt::format("node n-0: port {} on 127.0.0.1 is taken by pid {}", cluster.first_port(),
                        ::getpid()));
  }
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  refused(2, {"status"}, "this cluster has no job");
  refused(6, {"train", "quick_start"}, "hint: make the data first: quick_start/prepare");
  EXPECT_EQ(cluster.prepare("quick_start", {}, labelled_texts(5)).code, 6);
  // Mistakes that only the engine finds are told as soon, and with their line.
  ASSERT_EQ(cluster.prepare("quick_start", {}, labelled_texts(50)).code, 0);
  const std::string good = TemporaryFolder::read(cluster.folder() / "quick_start/job.toml");
  cluster.folder().write("quick_start/job.toml",
                         "[[layer]]\nname = \"idle\"\ntype = \"embedding\"\ninput = [\"words\"]\n"
                         "size = 2\npooling = \"sum\"\nweight = { sparse = true }\n\n" +
                             good.substr(good.find("[[layer]]")) + "\n" +
                             good.substr(0, good.find("[[layer]]")).substr(good.find("[data]")));
  refused(2, {"train", "quick_start"},
          "quick_start/job.toml:1: layer 'idle': no other layer reads");
  cluster.folder().write("quick_start/job.toml", good);
  ASSERT_EQ(cluster.prepare("quick_start", {}, labelled_texts(50)).code, 0);
  refused(2, {"train", "--trainers", "0", "quick_start"},
          "--trainers: '0' is not a whole number from 1 to 4096");
  refused(2, {"train", "--triners", "2", "quick_start"},
          "unknown option '--triners', did you mean '--trainers'?");
  refused(2, {"train", "--set", "train.pases=1", "quick_start"},
          "unknown key 'pases', did you mean 'passes'?");
  refused(2, {"train", "nowhere"}, "no job.toml in");
  refused(2, {"trian"}, "unknown command 'trian', did you mean 'train'?");
  refused(2, {"logs", "--job", "other"}, "this cluster has no job 'other'");
  EXPECT_TRUE(cluster.all_gone());
  expect_clean_teardown();
}

}  // namespace
}  // namespace paddle::test
