// paddlectl's commands against nodes in memory.
#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/app.h"
#include "engine/base/fd.h"
#include "engine/base/version.h"
#include "tests/support/fake_agent_client.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;
using remote::FakeNode;
using remote::ProcessState;
using remote::ProcessStatus;

// Time that passes only in pauses, and by `step` with each look at it.
struct FakeClock final : Clock {
  mutable TimePoint time{};
  Duration step{};
  TimePoint now() const override { return time += step; }
};

constexpr const char* kJob = R"(
name = "tiny"
[data]
train = "data/train-*"
test = "data/test.txt"
format = "bow"
dictionary = "data/dictionary.txt"
[[layer]]
name = "embedded"
type = "embedding"
input = ["words"]
size = 4
pooling = "sum"
[[layer]]
name = "output"
type = "fc"
input = ["embedded"]
size = 2
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "label"
[optimizer]
method = "sgd"
learning_rate = 0.1
)";

// Stays a moment, so that another one that may come does.
struct NodesAtOnce {
  NodesAtOnce(std::atomic<int>& now, std::atomic<int>& most) : now_(now) {
    const int mine = ++now;
    for (int seen = most; mine > seen && !most.compare_exchange_weak(seen, mine);) {
    }
    ::poll(nullptr, 0, 10);
  }
  ~NodesAtOnce() { --now_; }
  std::atomic<int>& now_;
};

class CommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/cli-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    write("c.toml", "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n");
    write("paddle", "engine");
    write("w/job.toml", kJob);
    write("w/data/train-00000", "1\ta b\n");
    write("w/data/train-00001", "0\tb\n");
    write("w/data/test.txt", "1\ta\n");
    write("w/data/dictionary.txt", "a\nb\n<unk>\n");
    write("w/.git/x", "hidden");
    for (FakeNode& node : nodes_)
      node.on_start = [this](FakeNode& fake, ProcessStatus& status) { started(fake, status); };
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((fs::path(folder_) / path).parent_path());
    std::ofstream(fs::path(folder_) / path) << text;
  }

  void started(FakeNode& fake, ProcessStatus& status) {
    if (status.name.starts_with("pserver-")) {
      fake.files[status.log] += "READY pserver " + status.name.substr(8) + " ports 1-2\n";
    } else {
      status.state = trainer_state_;
      status.exit_code = trainer_exit_;
      status.ended_unix_ms = 500;
      fake.files[status.log] = "reading\nbad record in data/train-00000:7\n";
      if (status.name == "trainer-0") {
        fake.files["jobs/job1/node_0/metrics.jsonl"] =
            "{\"kind\":\"test\",\"pass\":0,\"samples\":1,\"cost\":0.5,\"perplexity\":1.65}\n";
        fake.files["jobs/job1/output/pass-00000/MANIFEST"] = "m";
      }
    }
  }

  int run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    Console console(out_, err_, {});
    Context context{
        console,
        clock_,
        [this](const remote::NodeSpec& spec,
               bool create) -> Result<std::unique_ptr<remote::AgentClient>> {
          FakeNode& fake = nodes_[spec.name == "n-0" ? 0 : 1];
          const NodesAtOnce here(at_once_, at_once_max_);
          timeout_ = spec.timeout;
          if (fake.unreachable)
            return Error{Errc::kUnreachable, "node " + spec.name + ": no route", "plug it in"};
          if (fake.torn_down && !create) return std::unique_ptr<remote::AgentClient>();
          fake.torn_down = false;
          return std::unique_ptr<remote::AgentClient>(new remote::FakeAgentClient(spec, fake));
        },
        [this](Duration d) {
          clock_.time += d;
          if (on_pause_) on_pause_();
        },
        [this] { return interrupted_; },
        [] { return std::int64_t{0}; },
        folder_ + "/paddle",
        folder_};
    context.take_interrupt = [this] { interrupted_ = false; };
    return run_app(context, std::move(arguments));
  }
  int train() { return run({"train", "--name", "job1", "w"}); }
  bool out_has(const std::string& text) const { return out_.str().find(text) != std::string::npos; }
  bool err_has(const std::string& text) const { return err_.str().find(text) != std::string::npos; }

  std::string folder_;
  FakeClock clock_;
  std::array<FakeNode, 2> nodes_;
  std::atomic<Duration> timeout_ = Duration();      // of the node connected last
  std::atomic<int> at_once_ = 0, at_once_max_ = 0;  // nodes being connected
  ProcessState trainer_state_ = ProcessState::kExited;
  int trainer_exit_ = 0;
  bool interrupted_ = false;
  std::function<void()> on_pause_;
  std::ostringstream out_, err_;
};

TEST_F(CommandsTest, CheckTriesEveryPairAndExitsWithTheGravestFault) {
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has("1 of 1")) << out_.str();
  EXPECT_EQ(nodes_[0].probed, std::vector<std::string>{"127.0.0.1:7166"});
  EXPECT_EQ(nodes_[1].probed, std::vector<std::string>{"127.0.0.1:7164"});
  EXPECT_TRUE(nodes_[0].taken_ports.empty()) << "nobody listens any more";

  nodes_[0].probes["127.0.0.1:7166"] = {remote::ProbeOutcome::kNoProof, "closed by peer", {}, 0};
  EXPECT_EQ(run({"doctor", "--cluster", "c.toml"}), 4);
  EXPECT_TRUE(
      out_has("! node n-1: 127.0.0.1:7166 is answered by somebody else: no proof "
              "(from n-0: closed by peer)\n  next: "))
      << out_.str();
  nodes_[0].taken_ports[7164] = "pid 1 (nginx)";
  nodes_[0].probed = nodes_[1].probed = {};
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 7);
  EXPECT_TRUE(out_has("! 7164-7165 taken")) << out_.str();
  EXPECT_TRUE(nodes_[1].probed.empty()) << "a stranger is not called";
  EXPECT_EQ(nodes_[0].probed.size(), 1U);

  nodes_[0].taken_ports.clear();
  nodes_[0].unreachable = true;
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 4);
  EXPECT_TRUE(out_has("! FAILED")) << out_.str();
  EXPECT_TRUE(out_has("! node n-0: no route\n  next: plug it in\n")) << out_.str();
  EXPECT_TRUE(out_has("n-1   127.0.0.1")) << out_.str();
  EXPECT_EQ(run({"check", "--cluster", "c.toml", "--on", "n-1"}), 0);
  EXPECT_FALSE(out_has("n-0"));
}

TEST_F(CommandsTest, GlobalOptionsStandBeforeTheCommandAsWellAsBehindIt) {
  EXPECT_EQ(run({"--password-file", "pw", "--timeout", "7", "--json", "up", "c.toml"}), 0)
      << err_.str();
  EXPECT_TRUE(out_has("\"node\": \"n-0\"")) << out_.str();
  EXPECT_EQ(timeout_.load(), std::chrono::seconds(7));
  EXPECT_GT(at_once_max_, 1);
  at_once_max_ = 0;
  EXPECT_EQ(run({"check", "--parallel", "1", "--timeout=8"}), 0) << err_.str();
  EXPECT_EQ(timeout_.load(), std::chrono::seconds(8));
  EXPECT_EQ(at_once_max_, 1);
  EXPECT_EQ(run({"--password-file", "up", "pu"}), 2);
  EXPECT_TRUE(err_has("unknown command 'pu', did you mean 'put'?")) << err_.str();
  EXPECT_EQ(run({"--timeout", "0", "status"}), 2);
  EXPECT_TRUE(err_has("'0' is not a whole number from 1 to ")) << err_.str();
  EXPECT_TRUE(err_has("see paddlectl status --help")) << err_.str();
  EXPECT_EQ(run({"status", "--timeot", "5"}), 2);
  EXPECT_TRUE(err_has("did you mean '--timeout'?")) << err_.str();
  EXPECT_EQ(run({"--cluster", "c.toml", "status"}), 2);
  EXPECT_TRUE(err_has("options of a command stand behind it")) << err_.str();
}

TEST_F(CommandsTest, OneMachineNamedTwiceHasABlockOfPortsForEachName) {
  write("twice.toml", "[[node]]\nhost = \"a\"\n[[node]]\nhost = \"b\"\nroles = [\"pserver\"]\n");
  for (const char* const command : {"up", "check"}) {
    std::vector<std::string> arguments{command, "twice.toml"};
    if (std::string_view(command) == "check") arguments.insert(arguments.begin() + 1, "--cluster");
    EXPECT_EQ(run(arguments), 0) << err_.str();
    EXPECT_TRUE(out_has("7164-7165 free")) << out_.str();
    EXPECT_TRUE(out_has("7166-7167 free")) << command << out_.str();
  }
}

TEST_F(CommandsTest, CheckTriesAsManyPairsOfALargeClusterAsItHasTimeFor) {
  write("large.toml", "[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 13\n");
  clock_.step = std::chrono::seconds(10);
  EXPECT_EQ(run({"check", "--cluster", "large.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has("links: 3 of the 12 others tried each node, as many as 60 s let"))
      << out_.str();
  EXPECT_TRUE(out_has("3 of 3")) << out_.str();
  EXPECT_EQ(nodes_[0].probed,
            (std::vector<std::string>{"127.0.0.1:7172", "127.0.0.1:7180", "127.0.0.1:7188"}))
      << "not its neighbours alone";
  EXPECT_EQ(run({"check", "--cluster", "large.toml", "--json"}), 0);
  EXPECT_TRUE(out_has("\"link_rounds\": 12, \"link_rounds_tried\": 3")) << out_.str();
  clock_.step = {};
  EXPECT_EQ(run({"check", "--cluster", "large.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has("12 of 12")) << out_.str();
  EXPECT_FALSE(out_has("links:"));
}

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

TEST_F(CommandsTest, ADryRunTellsOfTrainersWithoutDataAsTrainDoes) {
  write("paddle", "#!/bin/sh\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "--trainers", "2", "w"}), 0);
  EXPECT_FALSE(err_has("no data file")) << err_.str();
  EXPECT_EQ(run({"train", "--dry-run", "--trainers", "4", "w"}), 0);
  EXPECT_TRUE(err_has("2 of 4 trainers have no data file")) << err_.str();
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

TEST_F(CommandsTest, TypoInACommandIsSuggested) {
  EXPECT_EQ(run({"trian"}), 2);
  EXPECT_EQ(err_.str(),
            "error: unknown command 'trian', did you mean 'train'?\nhint: see paddlectl --help\n");
  EXPECT_EQ(run({"train", "--trainer", "3"}), 2);
  EXPECT_TRUE(err_has("did you mean '--trainers'?")) << err_.str();
}

TEST_F(CommandsTest, ErrorsAreJsonWithJson) {
  EXPECT_EQ(run({"--json", "trian"}), 2);
  EXPECT_EQ(err_.str(),
            "{\"error\": {\"code\": 2, \"message\": \"unknown command 'trian', did you mean "
            "'train'?\", \"hint\": \"see paddlectl --help\"}}\n");
  EXPECT_EQ(run({"train", "--trainers", "x", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with(R"({"error": {"code": 2, )")) << err_.str();
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"up", "c.toml", "--json"}), 4);
  EXPECT_TRUE(err_has(R"({"error": {"code": 4, "message": "1 of 2 nodes are not ready; )"))
      << err_.str();
  EXPECT_TRUE(out_.str().starts_with("[{")) << out_.str();
  EXPECT_EQ(run({"exec", "--cluster", "missing", "--", "x", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with("error: ")) << "that --json is the command's";
}

TEST_F(CommandsTest, AnErrorWithoutAHintOfItsOwnGetsTheNextStepOfItsKind) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--set", "train.pases=1", "w"}), 2);
  EXPECT_TRUE(err_has("unknown key 'pases', did you mean 'passes'?\nhint: paddlectl <command>"))
      << err_.str();
}

TEST_F(CommandsTest, HelpShowsExamples) {
  EXPECT_EQ(run({"train", "--help"}), 0);
  EXPECT_TRUE(out_has("paddlectl train --trainers 4 --pservers 2 templates/word2vec"));
  EXPECT_TRUE(out_has("Usage: paddlectl train [OPTIONS] [workspace]")) << out_.str();
}

TEST_F(CommandsTest, WithoutAClusterTheNextStepIsNamed) {
  EXPECT_EQ(run({"status"}), 2);
  EXPECT_TRUE(err_has("paddlectl up <cluster file>"));
  EXPECT_EQ(run({"up", "missing.toml"}), 2);
  EXPECT_TRUE(err_has("no cluster file 'missing.toml'"));
}

TEST_F(CommandsTest, UpIsIdempotentAndRemembersTheCluster) {
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has(" changed")) << out_.str();
  EXPECT_TRUE(out_has("7166-7167 free")) << out_.str();
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_TRUE(out_has("unchanged"));
  EXPECT_EQ(*read_file(folder_ + "/.paddlectl/current"), folder_ + "/c.toml\n");
}

TEST_F(CommandsTest, UpShowsAFailedNodeAndItsCode) {
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"up", "c.toml"}), 4);
  EXPECT_TRUE(out_has("FAILED"));
  EXPECT_TRUE(err_has("1 of 2 nodes are not ready"));
  EXPECT_TRUE(err_has("node n-1: no route\nhint: plug it in"));
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, OnReachesOnlyTheNodesItNames) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[1].unreachable = true;
  for (const char* command : {"up", "status", "logs", "metrics"}) {
    const std::vector<std::string> where = {command, "--cluster", "c.toml"};
    std::vector<std::string> all = where;
    if (std::string(command) == "up") all = {"up", "c.toml"};
    EXPECT_EQ(run(all), 4) << command;
    all.insert(all.end(), {"--on", "n-0"});
    EXPECT_EQ(run(all), 0) << command << err_.str();
    EXPECT_TRUE(out_has("n-0") || out_has("trainer-0")) << command << out_.str();
    EXPECT_FALSE(out_has("n-1")) << command << out_.str();
    all.back() = "n-7";
    EXPECT_EQ(run(all), 2) << command;
  }
  EXPECT_EQ(run({"up", "c.toml", "--on", "!n-1"}), 0);
  EXPECT_TRUE(err_has("1 of 2 nodes ready; a job needs them all")) << err_.str();
}

TEST_F(CommandsTest, UpRefusesAPortOfAStranger) {
  nodes_[1].taken_ports[7167] = "pid 5 (nginx)";
  EXPECT_EQ(run({"up", "c.toml"}), 7);
  EXPECT_TRUE(err_has("node n-1: port 7167 on 127.0.0.1 is taken by pid 5 (nginx)")) << err_.str();
}

TEST_F(CommandsTest, TrainRunsToItsEndAndBringsResultsHome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(out_has("pass 0: held-out cost 0.5000, perplexity 1.65"));
  EXPECT_EQ(*read_file(folder_ + "/output/job1/pass-00000/MANIFEST"), "m");
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/node_1/server.log"));
  for (FakeNode& node : nodes_) {
    EXPECT_EQ(node.claimed_job, "job1");
    EXPECT_FALSE(node.files.contains("jobs/job1/workspace/.git/x"));
    for (const auto& process : node.processes)
      EXPECT_NE(process.state, ProcessState::kRunning) << process.name;
  }
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/workspace/data/train-00000"));
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/workspace/data/train-00000"));
  EXPECT_TRUE(nodes_[1].files.contains("jobs/job1/workspace/data/dictionary.txt"));
  EXPECT_EQ(train(), 2);  // the name is taken
  EXPECT_TRUE(err_has("is there already"));
}

TEST_F(CommandsTest, TrainNamesTheFirstCauseAndStopsTheRest) {
  trainer_exit_ = 6;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("trainer-0 on n-0 exited with code 6")) << err_.str();
  EXPECT_TRUE(err_has("n-0/trainer-0 | bad record in data/train-00000:7"));
  for (FakeNode& node : nodes_) {
    for (const auto& process : node.processes)
      EXPECT_NE(process.state, ProcessState::kRunning) << process.name;
  }
}

TEST_F(CommandsTest, AFailedJobIsStoppedOverConnectionsThatHadBroken) {
  trainer_exit_ = 6;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (FakeNode& node : nodes_) node.breaks_at_stop = true;
  EXPECT_EQ(train(), 6);
  EXPECT_FALSE(err_has("not everything could be stopped")) << err_.str();
  for (FakeNode& node : nodes_) {
    for (const auto& process : node.processes)
      EXPECT_NE(process.state, ProcessState::kRunning) << process.name;
  }
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

TEST_F(CommandsTest, CtrlCLetsTheJobSaveAndItGoesOnLater) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name == "trainer-1") interrupted_ = true;
  };
  EXPECT_EQ(train(), 75) << err_.str();
  EXPECT_TRUE(out_has("stopped: ")) << out_.str();
  EXPECT_TRUE(err_has("go on with: paddlectl train --resume --name job1")) << err_.str();
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

TEST_F(CommandsTest, AResumedJobGetsItsSnapshotBackFromHere) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 2);
  EXPECT_TRUE(err_has("job job1 has no snapshot, on its nodes or in output/job1")) << err_.str();
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

TEST_F(CommandsTest, AJobIsRestartedAndRemovedByName) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--restarts", "2", "w"}), 0);
  EXPECT_EQ(nodes_[1].specs["trainer-1"].restarts, 2U);
  EXPECT_EQ(run({"rm", "job1"}), 2);
  EXPECT_TRUE(err_has("job job1 still runs: pserver-0 on n-0")) << err_.str();
  ASSERT_EQ(run({"restart", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"state\": \"running\"}\n");
  EXPECT_TRUE(err_has("2 pservers ready")) << err_.str();
  EXPECT_EQ(run({"restart", "trainer-7"}), 2);
  ASSERT_EQ(run({"stop"}), 0);
  EXPECT_EQ(run({"rm"}), 2);
  EXPECT_EQ(run({"rm", "job1", "job2"}), 2);
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
  ASSERT_EQ(run({"rm", "job1"}), 0) << err_.str();
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
  EXPECT_TRUE(err_has("asking the job to stop and to save")) << err_.str();
  for (FakeNode& node : nodes_) {
    for (const auto& process : node.processes)
      EXPECT_EQ(process.state, ProcessState::kExited) << process.name;
  }
}

TEST_F(CommandsTest, WrongInputIsNamed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "nowhere"}), 2);
  EXPECT_TRUE(err_has("no job.toml in"));
  EXPECT_EQ(run({"train", "--set", "train.pases=1", "w"}), 2);
  fs::remove_all(folder_ + "/w/data");
  write("w/data/dictionary.txt", "a\n<unk>\n");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("no file matches 'data/train-*'")) << err_.str();
  write("w/prepare", "#!/bin/sh\n");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("hint: make the data first: w/prepare\n")) << err_.str();
  fs::remove_all(folder_ + "/w/data");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("hint: make the data first: w/prepare\n")) << err_.str();
}

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
  EXPECT_EQ(run({"stop"}), 4);
  EXPECT_TRUE(err_has("job1 was asked to stop and still runs\nhint: end it at once")) << err_.str();
  EXPECT_EQ(nodes_[0].processes.front().state, ProcessState::kRunning);
  ASSERT_EQ(run({"stop", "--now"}), 0);
  EXPECT_TRUE(out_has("3 processes stopped")) << out_.str();
  nodes_[1].remaining = {"pid 7: not ours to end"};
  EXPECT_EQ(run({"teardown"}), 1);
  EXPECT_TRUE(err_has("node n-1: these remain:\n  pid 7"));
  nodes_[1].remaining.clear();
  ASSERT_EQ(run({"teardown"}), 0);
  EXPECT_TRUE(nodes_[0].torn_down);
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, LookingAtATornDownClusterBringsNothingBack) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"teardown"}), 0);
  EXPECT_EQ(run({"status", "--cluster", "c.toml"}), 2);
  EXPECT_TRUE(err_has("node n-0: nothing of this cluster is there")) << err_.str();
  EXPECT_TRUE(err_has("hint: prepare the nodes: paddlectl up")) << err_.str();
  EXPECT_EQ(run({"teardown", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
}

TEST_F(CommandsTest, ATeardownElsewhereEndsTrainAtOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0);
  for (FakeNode& node : nodes_) node.torn_down_after = 2;
  EXPECT_EQ(run({"attach"}), 1);
  EXPECT_TRUE(err_has("job 'job1' is not on its nodes any more\nhint: ")) << err_.str();
  EXPECT_TRUE(nodes_[0].torn_down && nodes_[1].torn_down);
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

TEST_F(CommandsTest, JsonOfEveryCommand) {
  ASSERT_EQ(run({"up", "c.toml", "--json"}), 0);
  EXPECT_TRUE(out_.str().starts_with(
      R"([{"node": "n-0", "address": "127.0.0.1", "os": "Debian GNU/Linux 12", "cores": 4, )"
      R"("memory_bytes": 8000000000, "gpus": [], "disk_free_bytes": 50000000000, )"))
      << out_.str();
  ASSERT_EQ(run({"train", "--json", "--name", "job1", "w"}), 0);
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"state\": \"done\", \"files\": 6, \"output\": \"" +
                            folder_ + "/output/job1\"}\n");
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":1,"batch":50,"cost":0.25,"examples_per_second":900})"
      "\n"
      R"({"kind":"pass","pass":1,"batch":60,"cost":0.5})"
      "\n";
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_.str().starts_with(
      R"({"job": "job1", "processes": [{"node": "n-0", "role": "pserver-0", "state": "done", )"
      R"("pid": null, )"))
      << out_.str();
  EXPECT_TRUE(out_has(R"("pass": 1, "batch": 60, "cost": 0.5000, "examples_per_second": 900)"))
      << out_.str();
  ASSERT_EQ(run({"logs", "--json", "--role", "pserver-0"}), 0);
  EXPECT_EQ(out_.str(), R"({"node": "n-0", "role": "pserver-0", "unix_ms": 100, )"
                        R"("line": "READY pserver 0 ports 1-2"})"
                        "\n");
  ASSERT_EQ(run({"stop", "--json"}), 0);
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"stopped\": 0}\n");
  ASSERT_EQ(run({"teardown", "--json"}), 0);
  EXPECT_TRUE(out_.str().starts_with(R"([{"node": "n-0", "processes_ended": 2, )")) << out_.str();
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
      out_has("node  role       state    pass  batch    cost  examples/s      in    out  "
              "memory  cores  heard  pid\n"))
      << out_.str();
  EXPECT_TRUE(
      out_has("n-0   trainer-0  running     2      7  0.2500        1000  3.0 MB  40 kB  "
              "200 MB    0.5   1.0s  101\n"))
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
  EXPECT_NE(page.find("held-out cost 0.5000"), std::string::npos);
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
  EXPECT_TRUE(out_has("5.0 kB/s")) << out_.str();
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
  write("w/data/train-00000", "1\ta\n");
  EXPECT_EQ(run({"train", "--trainers", "3", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("1 of 3 trainers has no data file")) << err_.str();
}

TEST_F(CommandsTest, ResultsThatCouldNotBeWrittenAreNamedBeforeTheTraining) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--output", "c.toml", "w"}), 7);
  EXPECT_TRUE(err_has("hint: choose another --output")) << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(CommandsTest, AWorkspaceOfAnyNameGivesAJobItsName) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  fs::rename(folder_ + "/w", folder_ + "/-my w\xc3\xb6rk");
  ASSERT_EQ(run({"train", "./-my w\xc3\xb6rk"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job my-w--rk-19700101-000000: ")) << err_.str();
  ASSERT_EQ(run({"train", "./-my w\xc3\xb6rk"}), 0) << "in the same second: " << err_.str();
  EXPECT_TRUE(err_has("job my-w--rk-19700101-000000-2: ")) << err_.str();
}

TEST_F(CommandsTest, ANodeCannotWriteOutsideTheOutputFolder) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[1].files["jobs/job1/output/../../../escaped"] = "x";
  EXPECT_EQ(run({"fetch"}), 6);
  EXPECT_TRUE(err_has("unsafe path"));
}

}  // namespace
}  // namespace paddle::cli
