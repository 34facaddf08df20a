// paddlectl's commands against three nodes over real sshds, as far as a user can see them.
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/ssh_cluster_test_fixture.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr double kGuessingCost = 0.69;  // of two classes
constexpr const char* kManyPasses = "train.passes=100000";

std::vector<std::string> train(const std::string& name, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"train", "--trainers", "3",  "--pservers",
                                        "2",     "--name",     name, "job"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != text.npos;
}

bool lacks(const std::string& text, const std::string& word) {
  return !contains(text, word);
}

// The cost of the last test in train's output; -1 without one.
double last_held_out_cost(const std::string& output) {
  const std::string before = "held-out cost ";
  const auto at = output.rfind(before);
  double cost = -1;
  if (at != output.npos) {
    std::from_chars(output.data() + at + before.size(), output.data() + output.size(), cost);
  }
  return cost;
}

std::vector<int> pids(const std::vector<NodeProcess>& processes) {
  std::vector<int> all;
  for (const NodeProcess& process : processes) all.push_back(process.pid);
  std::ranges::sort(all);
  return all;
}

class SshClusterLongJobTest : public SshClusterTest {
 protected:
  // A job that would train for hours, once every trainer has reported a batch of a pass.
  std::unique_ptr<Process> begin_long_job() {
    slow_job_down();
    const Outcome up = run({"up", "cluster.toml"});
    EXPECT_EQ(up.code, 0) << up.output;
    auto job = std::make_unique<Process>(begin(train("long", {"--set", kManyPasses})));
    EXPECT_TRUE(wait_until([&] { return is_training(); })) << job->output();
    return job;
  }

  bool is_training() const {
    for (std::size_t node = 0; node < kNodes.size(); ++node) {
      const std::string log = TemporaryFolder::read(job_file(node, "long", "train.log"));
      if (log.find("Batch=") == log.npos) return false;
    }
    return true;
  }

  std::uintmax_t metrics_bytes(std::size_t node) const {
    std::error_code none;
    const auto size = fs::file_size(job_file(node, "long", "metrics.jsonl"), none);
    return none ? 0 : size;
  }
};

TEST_F(SshClusterTest, TheCommandsTrainAModelAndLeaveNothing) {
  const Outcome first = run({"up", "cluster.toml"});
  ASSERT_EQ(first.code, 0) << first.output;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    EXPECT_PRED2(contains, first.output, kNodes[i]);
    EXPECT_PRED2(contains, first.output, kAddresses[i]);
  }
  EXPECT_PRED2(lacks, first.output, " free  ready");
  const Outcome second = run({"up", "cluster.toml"});
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(count_of(second.output, " free  ready"), kNodes.size()) << second.output;

  const Outcome trained = run(train("first", {"--pass", "all"}));
  ASSERT_EQ(trained.code, 0) << trained.output;
  const double cost = last_held_out_cost(trained.output);
  EXPECT_GE(cost, 0) << trained.output;
  EXPECT_LT(cost, kGuessingCost) << "the model learned nothing:\n" << trained.output;
  const std::string manifest = user_file("output/first/pass-00001/MANIFEST");
  EXPECT_TRUE(fs::exists(user_file("output/first/pass-00000/MANIFEST")));
  EXPECT_TRUE(fs::exists(manifest));
  EXPECT_TRUE(fs::exists(user_file("output/first/node_0/server.log")));
  EXPECT_TRUE(fs::exists(user_file("output/first/node_2/train.log")));
  expect_no_engine();

  const Outcome status = run({"status", "--json"});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_EQ(count_of(status.output, "\"trainer-"), 3U) << status.output;
  EXPECT_EQ(count_of(status.output, "\"pserver-"), 2U) << status.output;
  EXPECT_EQ(count_of(status.output, "\"done\""), 5U) << status.output;

  const Outcome logs = run({"logs", "--role", "trainer"});
  EXPECT_EQ(logs.code, 0) << logs.output;
  EXPECT_PRED2(contains, logs.output, "charlie/trainer-2 | ");
  EXPECT_PRED2(contains, logs.output, "Pass=1 Batch=");
  EXPECT_PRED2(lacks, logs.output, "pserver-");

  fs::remove_all(user_file("output"));
  const Outcome fetched = run({"fetch"});
  EXPECT_EQ(fetched.code, 0) << fetched.output;
  EXPECT_TRUE(fs::exists(manifest)) << fetched.output;

  const Outcome ran = run({"exec", "--shell", "echo over ssh; exit 3"});
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_EQ(count_of(ran.output, "over ssh"), 1U) << "equal results stand once\n" << ran.output;
  const Outcome got = run({"get", "/etc/debian_version", "got"});
  EXPECT_EQ(got.code, 0) << got.output;

  const Outcome torn_down = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  EXPECT_EQ(count_of(torn_down.output, "clean"), kNodes.size()) << torn_down.output;
  expect_clean_nodes();
}

// As with homes on a file server, or a machine that is named twice.
TEST_F(SshClusterTest, NodesThatShareAWorkdirTrainEachInAFolderOfItsOwn) {
  std::string text = TemporaryFolder::read(user_file("cluster.toml"));
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    const auto at = text.find(workdir(i));
    ASSERT_NE(at, text.npos);
    text.replace(at, workdir(i).size(), workdir(0));
  }
  write_user_file("cluster.toml", text);
  const Outcome up = run({"up", "cluster.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  const Outcome trained = run(train("first"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    const std::string logs = workdir(0) + "/lab/" + kNodes[i] + "/jobs/first/node_";
    EXPECT_TRUE(fs::exists(fmt::format("{}{}/train.log", logs, i))) << kNodes[i];
  }
  const Outcome torn_down = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  expect_clean_nodes();
}

// One machine with two names has one sshd, one address and one workdir for both.
TEST_F(SshClusterTest, AMachineThatIsNamedTwiceServesEachNameByItself) {
  const std::uint16_t first_port = free_ports(2 * kBlock);
  ASSERT_NE(first_port, 0);
  std::string text = fmt::format(
      "name = \"lab\"\nport = {}\nports_num = 1\nports_num_for_sparse = 1\nworkdir = \"{}\"\n",
      first_port, workdir(0));
  for (const char* const name : {"n1", "n2"}) {
    text += fmt::format(
        "[[node]]\nname = \"{}\"\nhost = \"{}\"\nssh_port = {}\nidentity = \"{}\"\n"
        "known_hosts = \"{}\"\n",
        name, kAddresses[0], sshd(0).port(), sshd(0).identity(), sshd(0).known_hosts());
  }
  write_user_file("cluster.toml", text);
  const Outcome up = run({"up", "cluster.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  const Outcome trained =
      run({"train", "--trainers", "2", "--pservers", "2", "--name", "both", "job"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  const auto log = [&](const std::string& node, const std::string& job, int rank) {
    return fmt::format("{}/lab/{}/jobs/{}/node_{}/train.log", workdir(0), node, job, rank);
  };
  EXPECT_TRUE(fs::exists(log("n1", "both", 0)));
  EXPECT_TRUE(fs::exists(log("n2", "both", 1)));

  slow_job_down();
  const Outcome started = run({"train", "--detach", "--on", "n2", "--trainers", "1", "--pservers",
                               "1", "--name", "long", "--set", kManyPasses, "job"});
  ASSERT_EQ(started.code, 0) << started.output;
  const std::vector<int> before = pids(engines());
  EXPECT_EQ(before.size(), 2U);
  const Outcome of_one = run({"teardown", "--on", "n1", "--yes", "--discard"});
  EXPECT_EQ(of_one.code, 0) << of_one.output;
  EXPECT_FALSE(fs::exists(workdir(0) + "/lab/n1"));
  EXPECT_TRUE(fs::exists(log("n2", "both", 1)));
  EXPECT_EQ(pids(engines()), before) << "the job of the other name goes on";
  const Outcome of_other = run({"teardown", "--on", "n2", "--yes", "--discard"});
  EXPECT_EQ(of_other.code, 0) << of_other.output;
  expect_clean_nodes();
}

// Nodes whose home is on a file server, with the workdir of a user that sets none.
class SshSharedHomeTest : public SshClusterTest {
 protected:
  Result<std::unique_ptr<Sshd>> start_sshd(std::size_t node) override {
    fs::create_directories(home());
    return Sshd::start(kAddresses[node], SshdLogin::kKey, {"SetEnv=SHLVL=2 HOME=" + home()});
  }
  std::string home() const { return workdir(0); }
};

TEST_F(SshSharedHomeTest, NodesTrainInFoldersOfTheirOwnBelowTheUsualWorkdir) {
  std::string text = TemporaryFolder::read(user_file("cluster.toml"));
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    const std::string line = fmt::format("workdir = \"{}\"\n", workdir(i));
    const auto at = text.find(line);
    ASSERT_NE(at, text.npos);
    text.erase(at, line.size());
  }
  write_user_file("cluster.toml", text);
  const Outcome up = run({"up", "cluster.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  const Outcome trained = run(train("first"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    const std::string logs = home() + "/.paddlectl/lab/" + kNodes[i] + "/jobs/first/node_";
    EXPECT_TRUE(fs::exists(fmt::format("{}{}/train.log", logs, i))) << kNodes[i];
  }
  const Outcome of_one = run({"teardown", "--on", "bravo", "--yes", "--discard"});
  EXPECT_EQ(of_one.code, 0) << of_one.output;
  EXPECT_FALSE(fs::exists(home() + "/.paddlectl/lab/bravo"));
  EXPECT_TRUE(fs::exists(home() + "/.paddlectl/lab/alpha/jobs/first"));
  const Outcome torn_down = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  EXPECT_TRUE(fs::remove(home())) << "nothing is left in it";
  expect_clean_nodes();
}

// As on clusters whose administrators want one session of a user at a time.
class OneSessionTest : public SshClusterLongJobTest {
 protected:
  Result<std::unique_ptr<Sshd>> start_sshd(std::size_t node) override {
    return Sshd::start(kAddresses[node], SshdLogin::kKey, {"MaxSessions=1"});
  }
};

TEST_F(OneSessionTest, CommandsWorkOneByOneAndBesideEachOther) {
  const std::unique_ptr<Process> job = begin_long_job();
  Process following = begin({"logs", "-f"});
  EXPECT_TRUE(following.prints("Batch=")) << following.output();
  write_user_file("file", "content");
  const std::string there = workdir(0) + "/there/";
  const std::vector<std::string> commands[] = {
      {"exec", "--", "true"},
      {"exec", "--stream", "--shell", "echo one; echo two"},
      {"put", "file", there},
      {"get", there + "file", "back"},
      {"status"},
      {"metrics"},
      {"logs", "-n", "5"},
      {"jobs"}};
  for (const auto& command : commands) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 0) << command[0] << "\n" << outcome.output;
  }
  for (const char* const node : kNodes)
    EXPECT_EQ(TemporaryFolder::read(user_file(fmt::format("back/{}/file", node))), "content");
  fs::remove_all(there);
  const Outcome stopped = run({"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_EQ(job->wait(kDeadline), 75) << job->output();
  EXPECT_TRUE(following.wait(kDeadline)) << following.output();
  const Outcome torn_down = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  expect_clean_nodes();
}

TEST_F(SshClusterTest, AChangedHostKeyIsRefusedByNameAndFingerprint) {
  const std::string other = user_file("other_key");
  ASSERT_TRUE(make_key(other));
  const auto known = fmt::format("[{}]:{} {}", kAddresses[1], sshd(1).port(),
                                 TemporaryFolder::read(other + ".pub"));
  ASSERT_TRUE(replace_file(sshd(1).known_hosts(), as_bytes(known)));
  const std::string shown = user_file("fingerprint");
  ASSERT_EQ(
      *run_program({"/usr/bin/ssh-keygen", "-l", "-f", sshd(1).folder() + "/host_key.pub"}, shown),
      0);
  const std::string line = TemporaryFolder::read(shown);
  const auto begin = line.find("SHA256:");
  ASSERT_NE(begin, line.npos);
  const std::string fingerprint = line.substr(begin, line.find(' ', begin) - begin);

  const Outcome up = run({"up", "cluster.toml"});
  EXPECT_EQ(up.code, 5) << up.output;
  EXPECT_PRED2(contains, up.output, "node bravo");
  EXPECT_PRED2(contains, up.output, "has changed");
  EXPECT_PRED2(contains, up.output, fingerprint);
  EXPECT_PRED2(contains, up.output, "alpha");
  EXPECT_PRED2(contains, up.output, "charlie");
  EXPECT_EQ(count_of(up.output, "FAILED"), 1U) << up.output;
  EXPECT_FALSE(fs::exists(workdir(1))) << "nothing may be written to a node that is not trusted";
  expect_no_process();

  // A job does not start without the node, and what is on the others can be taken away.
  const Outcome trained = run(train("first", {"--cluster", "cluster.toml"}));
  EXPECT_EQ(trained.code, 5) << trained.output;
  expect_no_process();
  const Outcome torn_down = run({"teardown", "--cluster", "cluster.toml", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 5) << torn_down.output;
  EXPECT_EQ(count_of(torn_down.output, "clean"), 2U) << torn_down.output;
  expect_clean_nodes();
}

TEST_F(SshClusterTest, TrustAddsOnlyKeysThatSomeoneNamed) {
  for (const std::size_t node : {0, 1}) {
    ASSERT_TRUE(replace_file(sshd(node).known_hosts(), as_bytes("")));
  }
  const auto known = [&](std::size_t node) {
    return TemporaryFolder::read(sshd(node).known_hosts());
  };
  const auto trust = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"trust", "--cluster", "cluster.toml"});
    return run(more);
  };
  const Outcome unasked = trust({});
  EXPECT_EQ(unasked.code, 5) << unasked.output;
  EXPECT_PRED2(contains, unasked.output, "this is not a terminal");
  const Outcome wrong = trust({"--fingerprint", "SHA256:AAAA"});
  EXPECT_EQ(wrong.code, 5) << wrong.output;
  EXPECT_EQ(known(0) + known(1), "");
  EXPECT_EQ(trust({"--on", "delta"}).code, 2);

  const auto at = unasked.output.find("SHA256:", unasked.output.find(kAddresses[0]));
  ASSERT_NE(at, std::string::npos) << unasked.output;
  const std::string fingerprint = unasked.output.substr(at, unasked.output.find('\n', at) - at);
  const Outcome one = trust({"alpha", "--fingerprint", fingerprint});
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_PRED2(contains, known(0), kAddresses[0]);
  EXPECT_EQ(known(1), "");
  const Outcome rest = trust({"--on", "!alpha", "--yes"});
  EXPECT_EQ(rest.code, 0) << rest.output;
  EXPECT_EQ(count_of(rest.output, "added"), 1U) << rest.output;
  EXPECT_PRED2(contains, known(1), kAddresses[1]);
  EXPECT_EQ(run({"up", "cluster.toml"}).code, 0);
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}).code, 0);
}

TEST_F(SshClusterTest, ATakenPortIsNamedAndNothingIsStarted) {
  const Outcome up = run({"up", "cluster.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  const auto taken = static_cast<std::uint16_t>(port() + 1);
  const UniqueFd holder = listen_on(kAddresses[1], taken);
  ASSERT_TRUE(holder);

  for (const auto& command : {train("first"), {"up", "cluster.toml"}}) {
    const Outcome refused = run(command);
    EXPECT_EQ(refused.code, 7) << refused.output;
    EXPECT_PRED2(contains, refused.output,
                 fmt::format("node bravo: port {} on {} is taken by pid {} ", taken, kAddresses[1],
                             ::getpid()));
    expect_no_process();
  }
  EXPECT_FALSE(fs::exists(workdir(0) + "/lab/" + kNodes[0] + "/jobs/first"))
      << "refused before anything was pushed";
}

TEST_F(SshClusterLongJobTest, APserverThatIsKilledEndsTheJobAndIsNamed) {
  const std::unique_ptr<Process> job = begin_long_job();
  const auto all = engines();
  const auto victim = std::ranges::find_if(all, [](const NodeProcess& process) {
    return process.command.find("--pserver_id=1 ") != std::string::npos;
  });
  ASSERT_NE(victim, all.end()) << job->output();
  ASSERT_EQ(::kill(victim->pid, SIGKILL), 0);

  const auto code = job->wait(kDeadline);
  const std::string output = job->output();
  ASSERT_TRUE(code) << "it still runs:\n" << output;
  EXPECT_NE(*code, 0);
  EXPECT_PRED2(contains, output, "error: pserver-1 on bravo killed by signal 9");
  expect_no_engine();
  EXPECT_TRUE(fs::exists(user_file("output/long/node_0/train.log"))) << "logs come home";

  const Outcome status = run({"status"});
  EXPECT_PRED2(contains, status.output, "killed by signal 9");
  EXPECT_PRED2(lacks, status.output, "running");
}

TEST_F(SshClusterLongJobTest, Trap11TrainingOutlivesPaddlectlAndTeardownFindsAllOfIt) {
  const std::unique_ptr<Process> job = begin_long_job();
  const std::vector<int> before = pids(engines());
  EXPECT_EQ(before.size(), 5U) << "3 trainers and 2 pservers";
  job->signal(SIGKILL);
  ASSERT_EQ(job->wait(kDeadline), 128 + SIGKILL);

  EXPECT_TRUE(wait_until([&] {
    return std::ranges::none_of(processes(), [](const NodeProcess& process) {
      return process.command.find(" serve ") != std::string::npos;
    });
  })) << "an agent must end with its connection";
  const std::uintmax_t size = metrics_bytes(0);
  EXPECT_TRUE(wait_until([&] { return metrics_bytes(0) > size; })) << "training stopped";
  EXPECT_EQ(pids(engines()), before);

  const Outcome status = run({"status", "--json"});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_EQ(count_of(status.output, "\"state\": \"running\""), 5U) << status.output;
  const Outcome torn_down = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  expect_clean_nodes();
}

}  // namespace
}  // namespace paddle::test
