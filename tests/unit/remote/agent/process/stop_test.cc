// Stops of processes by a real agent: those it ends, those it spares, and their records.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/fd.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/proc.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(AgentTest, AProcessThatFailsWhenItIsAskedToSaveWasNotStopped) {
  const auto agent = connect_agent();
  const auto end_of = [&](const std::string& name, const std::string& at_stop) {
    const std::string text = at_stop.empty() ? "" : "trap '" + at_stop + "' TERM\n";
    push_script(*agent, name, text + "echo runs\nwhile :; do sleep 0.01; done");
    const ProcessSpec spec = script(name, name);
    EXPECT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, "runs");
    EXPECT_TRUE(agent->ask_to_stop("job-1", {name}));
    return wait_end(*agent, "job-1", name);
  };
  EXPECT_TRUE(end_of("saves", "exit 75").stopped);
  EXPECT_TRUE(end_of("done", "exit 0").stopped);
  EXPECT_TRUE(end_of("plain", "").stopped);
  EXPECT_TRUE(end_of("shell", "exit 143").stopped);
  for (const char* const failure : {"exit 1", "exit 7", "kill -SEGV $$", "kill -KILL $$"}) {
    EXPECT_FALSE(end_of("fails", failure).stopped) << failure;
  }
}

// As `paddle train` ends that has not joined yet: with 130.
TEST_F(AgentTest, AProcessThatIsInterruptedComesBackToSaveIfItHadBegun) {
  const auto agent = connect_agent();
  push_script(*agent, "late",
              "[ $1 = $2 ] && trap 'exit 130' TERM && echo waits && while :; do sleep 0.01; done\n"
              "[ $1 = 1 ] && kill -KILL $$\necho \"asked $PADDLECTL_STOP_ASKED\"; exit 75");
  const auto end_of = [&](const std::string& name, const std::string& waiting_run) {
    ProcessSpec spec = script("late", name);
    spec.arguments = {"{incarnation}", waiting_run};
    spec.restarts = 5;
    EXPECT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, "waits");
    EXPECT_TRUE(agent->ask_to_stop("job-1", {name}));
    return wait_end(*agent, "job-1", name);
  };
  const ProcessStatus first = end_of("first", "1");
  EXPECT_EQ(first.exit_code, 130);
  EXPECT_EQ(first.incarnation, 1U);
  EXPECT_TRUE(first.stopped);
  const ProcessStatus second = end_of("second", "2");
  EXPECT_EQ(second.exit_code, 75);
  EXPECT_EQ(second.incarnation, 3U) << "the others wait for it, to save";
  EXPECT_TRUE(second.stopped);
}

// A second SIGTERM would end what the first one saves.
TEST_F(AgentTest, AProcessIsAskedToSaveOnceHoweverOftenAndByHoweverMany) {
  const auto agent = connect_agent();
  push_script(*agent, "counts",
              "trap 'echo asked' TERM\necho runs\n"
              "until [ -e go ]; do sleep 0.01; done\nexit 75");
  for (const std::string name : {"again", "at-once"}) {
    const ProcessSpec spec = script("counts", name);
    ASSERT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, "runs");
    std::vector<std::unique_ptr<AgentClient>> others;
    for (int i = 0; i < 4; ++i) others.push_back(connect_agent());
    if (name == "again") {
      for (const auto& other : others) EXPECT_TRUE(other->ask_to_stop("job-1", {name}));
    } else {
      std::vector<std::jthread> threads;
      for (const auto& other : others)
        threads.emplace_back([&] { EXPECT_TRUE(other->ask_to_stop("job-1", {name})); });
    }
    wait_log(*agent, spec.log, "asked");
    // A signal that was sent before this one has come by then.
    EXPECT_TRUE(agent->ask_to_stop("job-1", {name}));
    write_file(node_.root + "/" + spec.directory + "/go", "");
    EXPECT_TRUE(wait_end(*agent, "job-1", name).stopped);
    std::filesystem::remove(node_.root + "/" + spec.directory + "/go");
    const std::string log = file_content(node_.root + "/" + spec.log);
    EXPECT_EQ(log.find("asked"), log.rfind("asked")) << log;
  }
}

// Its supervisor and the agents must not both ask the run that begins just then.
TEST_F(AgentTest, AProcessThatIsStartedAgainWhileItIsAskedIsAskedOnce) {
  const auto agent = connect_agent();
  push_script(*agent, "comes-back",
              "n=0; trap 'n=$((n + 1)); echo asked $n' TERM\necho \"run $1\"\n"
              "[ \"$1\" = 1 ] && [ -z \"$PADDLECTL_STOP_ASKED\" ] && sleep 0.05 && kill -KILL $$\n"
              "i=0; until [ -n \"$PADDLECTL_STOP_ASKED\" ] || [ $n -gt 0 ]; do sleep 0.01; done\n"
              "sleep 0.2; exit 75");
  for (int round = 0; round < 5; ++round) {
    const std::string name = "trainer-" + std::to_string(round);
    ProcessSpec spec = script("comes-back", name);
    spec.arguments = {"{incarnation}"};
    spec.restarts = 9;
    ASSERT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, "run 1");
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(agent->ask_to_stop("job-1", {name}));
    EXPECT_EQ(wait_end(*agent, "job-1", name).exit_code, 75);
    const std::string log = file_content(node_.root + "/" + spec.log);
    EXPECT_EQ(log.find("asked 2"), std::string::npos) << log;
  }
}

TEST_F(AgentTest, WhateverAProcessEndsWithByAnOrderItWasStopped) {
  const auto agent = connect_agent();
  push_script(*agent, "reads", "trap 'exit 6' TERM\necho runs\nwhile :; do sleep 0.01; done");
  const ProcessSpec spec = script("reads", "trainer-0");
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, spec.log, "runs");
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(20)));
  const ProcessStatus status = wait_end(*agent, "job-1", "trainer-0");
  EXPECT_EQ(status.exit_code, 6);
  EXPECT_TRUE(status.stopped);
}

// A session that is nobody's but the test's; it ends with the variable.
class Bystander {
 public:
  explicit Bystander(const std::string& directory) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const UniqueFd read_end(ready[0]);
    UniqueFd write_end(ready[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setsid();
      if (::chdir(directory.c_str()) != 0) ::_exit(1);
      write_end.reset();
      for (;;) ::pause();
    }
    write_end.reset();
    char none;
    while (::read(read_end.get(), &none, 1) < 0 && errno == EINTR) {
    }
  }
  ~Bystander() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  int pid() const { return pid_; }
  bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  pid_t pid_ = -1;
};

TEST_F(AgentTest, StopSparesASessionThatGotTheSupervisorsNumber) {
  auto agent = connect_agent();
  push_script(*agent, "short", "exit 0");
  ASSERT_TRUE(agent->start(script("short", "trainer-0")));
  wait_end(*agent, "job-1", "trainer-0");
  const Bystander bystander("/");
  const std::string path = node_.root + "/jobs/job-1/proc/trainer-0/pid";
  wire::agent::PidRecord record;
  ASSERT_TRUE(record.ParseFromString(file_content(path)));
  record.set_supervisor(bystander.pid());
  write_file(path, record.SerializeAsString());
  EXPECT_TRUE(agent->stop("job-1", {}, std::chrono::milliseconds(100)));
  EXPECT_TRUE(bystander.lives()) << "a process that is not ours was killed";
}

TEST_F(AgentTest, TeardownSparesAShellThatStandsInTheFolder) {
  auto agent = connect_agent();
  const Bystander bystander(node_.root);
  const auto report = agent->teardown(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->remaining().empty());
  EXPECT_TRUE(bystander.lives()) << "it only looked around";
}

TEST_F(AgentTest, TeardownTriesAgainWhereACommandThatEndsStillWrites) {
  auto agent = connect_agent();
  const auto path = [&](int number) { return node_.root + "/late-" + std::to_string(number); };
  constexpr int kFiles = 200;
  for (int i = 0; i < kFiles; ++i) write_file(path(i), "x");
  std::thread writer([&] {
    std::optional<std::chrono::steady_clock::time_point> until;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until.value_or(give_up)) {
      for (int i = 0; i < kFiles; ++i) {
        const UniqueFd again(
            ::open(path(i).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (again && !until)
          until = std::chrono::steady_clock::now() + std::chrono::milliseconds(150);
      }
    }
  });
  const auto report = agent->teardown(false);
  writer.join();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->remaining().empty());
  EXPECT_FALSE(std::filesystem::exists(node_.root));
}

TEST_F(AgentTest, Trap11StopEndsAProcessThatIgnoresSigtermAndItsChildren) {
  auto agent = connect_agent();
  push_script(*agent, "stubborn",
              "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 1; done' & "
              "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & "
              "echo ready; while :; do sleep 1; done");
  ASSERT_TRUE(agent->start(script("stubborn", "pserver-0")));
  wait_log(*agent, "jobs/job-1/output/pserver-0.log", "ready");
  const auto stopped = agent->stop("job-1", {}, std::chrono::milliseconds(200));
  ASSERT_TRUE(stopped) << stopped.error().message;
  const ProcessStatus status = agent->processes("job-1")->at(0);
  EXPECT_EQ(status.state, ProcessState::kKilled);
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_EQ(processes_using(node_.root + "/jobs"), std::vector<int>{});
}

TEST_F(AgentTest, StopEndsOnlyWhatIsNamedAndLetsItEndWell) {
  auto agent = connect_agent();
  push_script(*agent, "polite",
              "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done");
  for (const char* name : {"pserver-0", "pserver-1"}) {
    ASSERT_TRUE(agent->start(script("polite", name)));
    wait_log(*agent, std::string("jobs/job-1/output/") + name + ".log", "ready");
  }
  ASSERT_TRUE(agent->stop("job-1", {"pserver-0"}, std::chrono::seconds(30)));
  const auto statuses = agent->processes("job-1");
  ASSERT_EQ(statuses->size(), 2U);
  EXPECT_EQ(statuses->at(0).state, ProcessState::kExited);
  EXPECT_EQ(statuses->at(0).exit_code, 5);
  EXPECT_TRUE(statuses->at(0).stopped);
  EXPECT_EQ(statuses->at(1).state, ProcessState::kRunning);
}

}  // namespace
}  // namespace paddle::remote
