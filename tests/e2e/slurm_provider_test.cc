// A cluster of kind "slurm" on Slurm's own daemons: two nodes on this machine.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/free_ports.h"
#include "tests/support/slurm.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kCommandDeadline = std::chrono::seconds(120);
constexpr int kResumable = 75;

class SlurmProvider : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (const std::string why = slurm_obstacle(); !why.empty()) return;
    place_ = std::make_unique<TemporaryFolder>();
    control_port_ = free_ports(3);
    daemons_ = std::make_unique<Process>(
        std::vector<std::string>{"/usr/bin/setpriv", "--pdeathsig", "TERM", "/bin/bash",
                                 SLURM_SCRIPT, *place_ / "slurm", "2", "/bin/sh", "-c",
                                 "echo ready; exec sleep 3600"},
        *place_ / "daemons",
        std::vector<std::string>{"PATH=/usr/sbin:/usr/bin:/bin",
                                 fmt::format("CONTROL_PORTS={}", control_port_)});
    runs_ = daemons_->prints("ready", std::chrono::seconds(90));
  }
  static void TearDownTestSuite() {
    if (!daemons_) return;
    daemons_->signal(SIGTERM);
    daemons_->wait(std::chrono::seconds(60));
    daemons_.reset();
    place_.reset();
  }

  void SetUp() override {
    if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
    if (!runs_) GTEST_SKIP() << daemons_->output();
    write_cluster(
        "nodes = 2\npartition = \"all\"\ntime = \"1:00:00\"\ncpus = 4\nmemory = \"1G\"\n");
  }
  void TearDown() override {
    if (runs_) run({"scancel", "--me"});
    if (runs_) wait_until([&] { return queue().empty(); });
  }

  void write_cluster(const std::string& keys) const {
    folder_.write("slurm.toml",
                  fmt::format("name = \"lab\"\nworkdir = \"{}\"\nport = {}\n[provider]\nkind = "
                              "\"slurm\"\n{}",
                              folder_ / "nodes", port_, keys));
  }
  std::vector<std::string> environment(const std::string& path = "/usr/bin:/bin") const {
    return {"PATH=" + path, "HOME=" + folder_.path(), "SECRET_TOKEN=of-a-laptop",
            "SLURM_CONF=" + (*place_ / "slurm/slurm.conf")};
  }
  Process start(std::vector<std::string> arguments, const std::string& path = "/usr/bin:/bin") {
    if (arguments.front() == "paddlectl") arguments.front() = PADDLECTL_PROGRAM;
    arguments.insert(arguments.begin(), {"/usr/bin/env", "-C", folder_.path()});
    return {arguments, folder_ / fmt::format("run-{}.txt", commands_++), environment(path)};
  }
  Outcome run(const std::vector<std::string>& arguments,
              const std::string& path = "/usr/bin:/bin") {
    Process process = start(arguments, path);
    const auto code = process.wait(kCommandDeadline);
    return {code.value_or(-1), process.output()};
  }
  void up() {
    const Outcome made = run({"paddlectl", "up", "slurm.toml"});
    ASSERT_EQ(made.code, 0) << made.output;
  }
  // The numbers of the jobs that have not ended, one a line.
  std::string queue() { return run({"squeue", "--me", "--noheader", "--format=%i"}).output; }
  std::string job_id() { return queue().substr(0, queue().find('\n')); }
  static bool wait_until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + kCommandDeadline;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }
  // The folders below /tmp that jobs of this Slurm keep.
  static std::string folders_of_jobs() {
    std::string found;
    const std::string node = fmt::format("-n{}-", control_port_);
    for (const auto& entry : fs::directory_iterator("/tmp")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("paddlectl-") && name.find(node) != name.npos) found += name + "\n";
    }
    return found;
  }
  void make_workspace() {
    for (const char* const file : {"job.toml", "prepare"}) {
      fs::create_directories(folder_ / "word2vec");
      fs::copy_file(fs::path(TEMPLATES_FOLDER) / "word2vec" / file,
                    fs::path(folder_ / "word2vec") / file);
    }
    const std::string text = folder_.write("text", chained_sentences(4000));
    const Outcome prepared = run({folder_ / "word2vec/prepare", "--minimum", "2", text});
    ASSERT_EQ(prepared.code, 0) << prepared.output;
  }
  std::vector<std::string> train(const std::string& job, const std::vector<std::string>& more) {
    std::vector<std::string> words{"paddlectl",  "train", "--trainers",        "4",
                                   "--pservers", "2",     "word2vec",          "--name",
                                   job,          "--set", "train.log_period=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The files of a fetched snapshot that hold parameters, by name.
  std::map<std::string, std::string> values(const std::string& job, const std::string& pass) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_ / ("output/" + job + "/" + pass))) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && name != "MANIFEST")
        files[name] = TemporaryFolder::read(entry.path());
    }
    return files;
  }
  // The same job on nodes of launcher "local".
  void train_locally(const std::string& job, const std::vector<std::string>& more) {
    folder_.write("local.toml",
                  fmt::format("name = \"local\"\nworkdir = \"{}\"\nport = {}\n[[node]]\nlauncher = "
                              "\"local\"\ncount = 2\n",
                              folder_ / "local-nodes", free_ports(8)));
    ASSERT_EQ(run({"paddlectl", "up", "local.toml"}).code, 0);
    const Outcome trained = run(train(job, more));
    ASSERT_EQ(trained.code, 0) << trained.output;
    EXPECT_EQ(run({"paddlectl", "teardown", "--yes"}).code, 0);
  }

  static inline std::unique_ptr<TemporaryFolder> place_;
  static inline std::unique_ptr<Process> daemons_;
  static inline bool runs_ = false;
  static inline std::uint16_t control_port_ = 0;
  const std::uint16_t port_ = free_ports(12);
  TemporaryFolder folder_;
  int commands_ = 0;
};

TEST_F(SlurmProvider, AJobTrainsAsOnTheLocalClusterAndNothingIsLeft) {
  make_workspace();
  train_locally("local", {"--set", "train.passes=2"});
  const Outcome up = run({"paddlectl", "up", "slurm.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  EXPECT_TRUE(up.says("lab-1")) << up.output;
  const std::string id = job_id();
  EXPECT_TRUE(run({"paddlectl", "up", "slurm.toml"}).says("2 nodes ready"));
  EXPECT_EQ(job_id(), id) << "a second up keeps the job";
  EXPECT_FALSE(run({"paddlectl", "exec", "--", "env"}).says("SECRET_TOKEN"));
  // Slurm ends what a connection leaves, and the job must not be part of that.
  const Outcome detached = run(train("far", {"--set", "train.passes=2", "--detach"}));
  ASSERT_EQ(detached.code, 0) << detached.output;
  const Outcome followed = run({"paddlectl", "attach", "--job", "far"});
  ASSERT_EQ(followed.code, 0) << followed.output;
  const auto expected = values("local", "pass-00001");
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(values("far", "pass-00001"), expected);
  EXPECT_TRUE(run({"paddlectl", "logs", "--job", "far"}).says("trainer-3"));
  const Outcome down = run({"paddlectl", "teardown", "--yes"});
  EXPECT_EQ(down.code, 0) << down.output;
  EXPECT_EQ(queue(), "");
  EXPECT_EQ(folders_of_jobs(), "");
  EXPECT_TRUE(!fs::exists(folder_ / "nodes") || fs::is_empty(folder_ / "nodes"));
}

TEST_F(SlurmProvider, FilesComeAndGoAsTheyAre) {
  ASSERT_NO_FATAL_FAILURE(up());
  std::string bytes(40U << 20U, '\0');
  std::minstd_rand random(1);
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8U);
  folder_.write("there", bytes);
  const Outcome put = run({"paddlectl", "put", "there", "kept"});
  ASSERT_EQ(put.code, 0) << put.output;
  const Outcome got = run({"paddlectl", "get", "kept", "here"});
  ASSERT_EQ(got.code, 0) << got.output;
  for (const char* const node : {"lab-0", "lab-1"}) {
    EXPECT_TRUE(TemporaryFolder::read(folder_ / fmt::format("here/{}/kept", node)) == bytes)
        << node;
  }
  const Outcome failed = run({"paddlectl", "exec", "--on", "lab-1", "--", "sh", "-c", "exit 7"});
  EXPECT_NE(failed.code, 0);
  EXPECT_TRUE(failed.says("7")) << failed.output;
}

// As Slurm does it with --signal, and at the end of the time itself.
TEST_F(SlurmProvider, AJobIsSavedBeforeTheTimeEndsAndGoesOnInAnotherAllocation) {
  make_workspace();
  train_locally("local", {"--set", "train.passes=30"});
  ASSERT_NO_FATAL_FAILURE(up());
  const std::string first = job_id();
  Process training = start(train("far", {"--set", "train.passes=30"}));
  ASSERT_TRUE(training.prints("pass 2 of 30")) << training.output();
  ASSERT_EQ(run({"scancel", "--signal=URG", first}).code, 0);
  EXPECT_EQ(training.wait(kCommandDeadline), kResumable) << training.output();
  EXPECT_NE(training.output().find("as asked by the time limit of its nodes"), std::string::npos)
      << training.output();
  run({"scancel", first});
  ASSERT_TRUE(wait_until([&] { return queue().empty(); }));
  const Outcome gone = run({"paddlectl", "status"});
  EXPECT_NE(gone.code, 0);
  EXPECT_TRUE(gone.says("Slurm ended job " + first + ": CANCELLED")) << gone.output;
  EXPECT_TRUE(gone.says("paddlectl up")) << gone.output;
  ASSERT_NO_FATAL_FAILURE(up());
  EXPECT_NE(job_id(), first);
  const Outcome resumed = run(train("far", {"--set", "train.passes=30", "--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const auto expected = values("local", "pass-00029");
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(values("far", "pass-00029"), expected);
}

TEST_F(SlurmProvider, AnAllocationThatEndsUnderAJobIsNamedWithTheNextStep) {
  make_workspace();
  ASSERT_NO_FATAL_FAILURE(up());
  const std::string id = job_id();
  Process training = start(train("far", {"--set", "train.passes=9000000"}));
  ASSERT_TRUE(training.prints("the job needs about")) << training.output();
  EXPECT_TRUE(run({"paddlectl", "status"}).says("the nodes are taken back in"));
  run({"scancel", id});
  const auto code = training.wait(kCommandDeadline);
  ASSERT_TRUE(code.has_value()) << training.output();
  EXPECT_NE(training.output().find("Slurm ended job " + id), std::string::npos)
      << training.output();
  EXPECT_NE(training.output().find("paddlectl up"), std::string::npos) << training.output();
}

TEST_F(SlurmProvider, WhatSlurmRefusesIsSaidInItsWordsWithTheNextStep) {
  const auto fails = [&](const std::string& keys, const std::string& words,
                         const std::string& step) {
    write_cluster(keys);
    const Outcome up = run({"paddlectl", "up", "slurm.toml"});
    EXPECT_NE(up.code, 0) << keys;
    EXPECT_TRUE(up.says(words)) << up.output;
    EXPECT_TRUE(up.says(step)) << up.output;
    EXPECT_EQ(queue(), "") << keys;
  };
  fails("nodes = 2\npartition = \"nope\"\n", "invalid partition specified: nope",
        "set [provider] partition");
  fails("nodes = 2\nmemory = \"900G\"\n", "Memory specification can not be satisfied", "sinfo");
  fails("nodes = 2\nextra = [\"--no-such-option\"]\n", "no-such-option", "teardown");
  fails("nodes = 3\n", "would wait for ever: PartitionNodeLimit", "scontrol show partition");
  write_cluster("nodes = 2\n");
  const std::string none = folder_.make("empty");
  const Outcome without = run({"paddlectl", "up", "slurm.toml"}, none);
  EXPECT_NE(without.code, 0);
  EXPECT_TRUE(without.says("squeue") && without.says("login node")) << without.output;
  const Outcome plan = run({"paddlectl", "up", "--dry-run", "slurm.toml"});
  EXPECT_EQ(plan.code, 0) << plan.output;
  EXPECT_TRUE(plan.says("--job-name=paddlectl-lab") && plan.says("to start at")) << plan.output;
  EXPECT_EQ(queue(), "");
}

TEST_F(SlurmProvider, AJobThatWaitsIsSaidToWaitAndIsWithdrawnByTeardown) {
  ASSERT_EQ(run({"sbatch", "--nodes=2", "--exclusive", "--chdir=/", "--output=/dev/null",
                 "--job-name=other", "--wrap=sleep 600"})
                .code,
            0);
  const std::string other = job_id();
  ASSERT_TRUE(wait_until([&] { return run({"squeue", "-h", "-t", "R"}).output != ""; }));
  write_cluster("nodes = 2\ntimeout = 3\n");
  const Outcome up = run({"paddlectl", "up", "slurm.toml"});
  EXPECT_NE(up.code, 0);
  EXPECT_TRUE(up.says("still waits: Resources")) << up.output;
  EXPECT_TRUE(run({"paddlectl", "status"}).says("lab-[0-1] is pending: job"));
  const Outcome down = run({"paddlectl", "teardown", "--yes"});
  EXPECT_EQ(down.code, 0) << down.output;
  EXPECT_EQ(queue(), other + "\n") << "only what carries the cluster's name is cancelled";
}

TEST_F(SlurmProvider, AFolderThatAnotherUserMadeFirstIsNotUsed) {
  const std::string last =
      run({"sbatch", "--parsable", "--chdir=/", "--output=/dev/null", "--wrap=true"}).output;
  const std::string planted =
      fmt::format("/tmp/paddlectl-{}-n{}-2", std::stoi(last) + 1, control_port_);
  fs::create_directory(planted);
  std::ofstream(planted + "/enter") << "touch " << folder_ / "planted\n";
  constexpr int kNobody = 65534;
  for (const std::string& path : {planted, planted + "/enter"})
    ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
  const Outcome made = run({"paddlectl", "up", "slurm.toml"});
  EXPECT_NE(made.code, 0);
  EXPECT_TRUE(made.says("Slurm ended job")) << made.output;
  EXPECT_FALSE(fs::exists(folder_ / "planted"));
  EXPECT_TRUE(wait_until([&] { return queue().empty(); }));
  fs::remove_all(planted);
}

TEST_F(SlurmProvider, TwoUpAtATimeShareOneJob) {
  Process first = start({"paddlectl", "up", "slurm.toml"});
  // In a terminal of another folder.
  const std::string elsewhere = folder_.make("elsewhere");
  Process second =
      start({"/usr/bin/env", "-C", elsewhere, PADDLECTL_PROGRAM, "up", "../slurm.toml"});
  EXPECT_EQ(first.wait(kCommandDeadline), 0) << first.output();
  EXPECT_EQ(second.wait(kCommandDeadline), 0) << second.output();
  EXPECT_TRUE(wait_until([&] { return queue() == job_id() + "\n"; })) << queue();
  EXPECT_EQ(run({"paddlectl", "teardown", "--yes"}).code, 0);
  EXPECT_EQ(queue(), "");
}

// PADDLE_KILLS sets how many moments.
TEST_F(SlurmProvider, UpAndTeardownThatAreKilledLeaveNothingThatTheNextTeardownDoesNotFind) {
  const char* const asked = std::getenv("PADDLE_KILLS");
  const int kills = asked == nullptr ? 6 : std::atoi(asked);
  const auto seed = static_cast<unsigned>(::getpid());
  std::mt19937 random(seed);
  for (int i = 0; i < kills; ++i) {
    const bool in_teardown = i % 2 == 1;
    if (in_teardown) {
      ASSERT_NO_FATAL_FAILURE(up());
    }
    const std::vector<std::string> words =
        in_teardown
            ? std::vector<std::string>{"paddlectl", "teardown", "--yes", "--cluster", "slurm.toml"}
            : std::vector<std::string>{"paddlectl", "up", "slurm.toml"};
    Process killed = start(words);
    const auto moment = std::chrono::milliseconds(random() % 2500);
    std::this_thread::sleep_for(moment);
    killed.signal(SIGKILL);
    killed.wait();
    const Outcome down = run({"paddlectl", "teardown", "--yes", "--cluster", "slurm.toml"});
    EXPECT_EQ(down.code, 0) << "seed " << seed << ", " << i << ": after " << moment.count()
                            << " ms\n"
                            << down.output;
    EXPECT_EQ(queue(), "") << "seed " << seed << ", " << i;
    EXPECT_EQ(folders_of_jobs(), "");
  }
}

}  // namespace
}  // namespace paddle::test
