#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "proto/agent.pb.h"
#include "remote/agent/machine/proc.h"
#include "tests/support/core_limit.h"
#include "tests/unit/remote/agent_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(AgentTest, ProcessRunsWithItsArgumentsEnvironmentAndFolderAndReportsItsExitCode) {
  auto agent = connect_agent();
  push_script(*agent, "say", "echo \"$1 $COLOUR $(pwd)\"; echo wrong >&2; exit 3");
  ProcessSpec spec = script("say", "trainer-0");
  spec.arguments = {"{root}/data"};
  spec.environment = {{"COLOUR", "bl\xfc"}};  // not UTF-8
  spec.ports = {{"10.0.0.1", 7168, 1}, {"10.0.0.1", 65535, 1}};
  const auto started = agent->start(spec);
  ASSERT_TRUE(started) << started.error().message;
  const ProcessStatus status = wait_end(*agent, "job-1", "trainer-0");
  EXPECT_EQ(status.state, ProcessState::kExited);
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.log, spec.log);
  ASSERT_EQ(status.ports.size(), 2U);
  EXPECT_EQ(status.ports[1].address, "10.0.0.1");
  EXPECT_EQ(status.ports[1].first, 65535);
  EXPECT_EQ(status.ports[1].count, 1);
  EXPECT_GT(status.started_unix_ms, 0);
  EXPECT_GE(status.ended_unix_ms, status.started_unix_ms);
  const auto log = agent->read_log(spec.log, 0, 1000);
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(log->data, node_.root + "/data bl\xfc " + node_.root + "/jobs/job-1/work\nwrong\n");
  EXPECT_EQ(log->next_offset, log->data.size());
  EXPECT_EQ(log->size, log->data.size());
}

TEST_F(AgentTest, ADefaultGivesWayToTheJobsVariablesAndToThoseOfTheNode) {
  auto agent = connect_agent();
  push_script(*agent, "say", "echo \"$COLOUR $PLACE $PATH\"; env | grep -c ^PATH=");
  ProcessSpec spec = script("say", "trainer-0");
  spec.environment = {{"COLOUR", "blue"}};
  spec.defaults = {{"COLOUR", "red"}, {"PLACE", "{root}"}, {"PATH", "/nowhere"}};
  ASSERT_TRUE(agent->start(spec));
  wait_end(*agent, "job-1", "trainer-0");
  const std::string log = agent->read_log(spec.log, 0, 1000)->data;
  EXPECT_TRUE(log.starts_with("blue " + node_.root + " /")) << log;
  EXPECT_EQ(log.find("/nowhere"), std::string::npos) << log;
  EXPECT_TRUE(log.ends_with("\n1\n")) << log;
}

TEST_F(AgentTest, AProcessHasTheLimitOfCoreFilesThatTheNodeGives) {
  std::optional<test::RaisedCoreLimit> raised(std::in_place);
  auto agent = connect_agent();
  raised.reset();
  push_script(*agent, "limit", "test `ulimit -S -c` = `ulimit -H -c`");
  ASSERT_TRUE(agent->start(script("limit", "trainer-0")));
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").exit_code, 0);
}

TEST_F(AgentTest, UsageLeavesOutTheSupervisorAndItsGuard) {
  const auto client = connect_agent();
  push_script(*client, "sleeper", "exec sleep 600");
  ProcessSpec spec = script("sleeper", "trainer-0");
  spec.restarts = 1;
  ASSERT_TRUE(client->start(spec));
  // The script becomes `sleep`, whose memory stays as it is.
  std::uint64_t told = 0;
  agent::ProcStat sleeper;
  for (const TimePoint end = SteadyClock().now() + std::chrono::seconds(20);
       (told == 0 || told != sleeper.resident_bytes) && SteadyClock().now() < end;) {
    const auto status = client->status("job-1");
    ASSERT_TRUE(status) << status.error().message;
    const ProcessStatus& process = status->processes.at(0);
    ASSERT_TRUE(process.usage);
    told = process.usage->resident_bytes;
    ASSERT_TRUE(agent::read_stat(process.pid, sleeper));
  }
  EXPECT_EQ(told, sleeper.resident_bytes);
  EXPECT_TRUE(client->stop("job-1", {}, std::chrono::seconds(5)));
}

TEST_F(AgentTest, StatusTellsWhatAProcessAndItsChildrenUse) {
  auto agent = connect_agent();
  push_script(*agent, "work", "(exec sleep 1000) & echo up; exec sleep 1000");
  ProcessSpec spec = script("work", "trainer-0");
  spec.arguments = {"--set=a"};
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, script("work", "trainer-0").log, "up\n");
  const auto status = agent->status("job-1");
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(status->processes.size(), 1U);
  ASSERT_TRUE(status->processes[0].usage);
  EXPECT_GT(status->processes[0].usage->resident_bytes, 100'000U);
  EXPECT_GT(status->node.unix_ms, status->processes[0].started_unix_ms - 1);
  EXPECT_GT(status->node.memory_available_bytes, 0U);
  EXPECT_GT(status->node.cpu_busy_ms, 0U);
  EXPECT_EQ(status->processes[0].arguments, spec.arguments);
  EXPECT_FALSE(agent->processes("job-1")->at(0).usage) << "only when asked for";
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  const auto ended = agent->status("job-1")->processes.at(0);
  ASSERT_TRUE(ended.usage) << "its peak, from its exit record";
  EXPECT_GT(ended.usage->resident_bytes, 100'000U);
}

TEST_F(AgentTest, ALogTellsWhenItsLinesWereWritten) {
  auto agent = connect_agent();
  push_script(*agent, "say", "echo one; read line < gate; echo two");
  const ProcessSpec spec = script("say", "trainer-0");
  const auto made =
      push(*agent, {{write_file(folder_ + "/keep", ""), spec.directory + "/keep", false}});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(::mkfifo((node_.root + "/" + spec.directory + "/gate").c_str(), 0600), 0);
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, spec.log, "one\n");
  const auto first = agent->read_log(spec.log, 0, 1000);
  ASSERT_EQ(first->times.size(), 1U);
  const std::int64_t between = agent->status("job-1")->node.unix_ms;
  EXPECT_LE(first->times[0].unix_ms, between);
  // The second line is written a step of the times later, whatever the machine does.
  while (agent->status("job-1")->node.unix_ms < between + 20) {
  }
  write_file(node_.root + "/" + spec.directory + "/gate", "go\n");
  wait_end(*agent, "job-1", "trainer-0");
  EXPECT_EQ(agent->read_log(spec.log, 0, 1000, between + 1)->data, "two\n");
  EXPECT_EQ(agent->read_log(spec.log, 0, 1000)->times.size(), 2U);
}

// Each life tells its number, and kills itself until the number is $2.
constexpr const char* kMortal = "echo life $1 again $3; [ $1 -ge $2 ] || kill -9 $$\n";

TEST_F(AgentTest, OneThatEndedIsStartedAgainWhileItsLeftoversAreBeingEnded) {
  const auto agent = connect_agent();
  push_script(*agent, "parent",
              "(trap '' TERM; echo left; exec sleep 60) & "
              "while ! grep -q left \"$1\"; do :; done; exit 3");
  ProcessSpec spec = script("parent", "p");
  spec.arguments = {"{root}/" + spec.log};
  ASSERT_TRUE(agent->start(spec));
  EXPECT_EQ(wait_end(*agent, "job-1", "p").exit_code, 3);
  const Status again = agent->restart("job-1", {"p"});
  ASSERT_TRUE(again) << again.error().message;
  const ProcessStatus second = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(second.life, 2U);
  EXPECT_EQ(second.exit_code, 3);
}

class AgentLeftovers : public AgentTest {
 protected:
  // The first life puts a program into the background, which writes its pid to the file `left`, and
  // is killed; the second one ends with 5 if that program still runs.
  void expect_ended(const std::string& program) {
    const auto agent = connect_agent();
    push_script(*agent, "parent",
                "if [ $1 = 2 ]; then kill -0 \"$(cat left)\" && exit 5; exit 0; fi\n" + program +
                    " &\nwhile ! [ -e left ]; do :; done; kill -9 $$\n");
    ProcessSpec spec = script("parent", "p");
    spec.arguments = {"{life}"};
    spec.restarts = 1;
    ASSERT_TRUE(agent->start(spec));
    const ProcessStatus ended = wait_end(*agent, "job-1", "p");
    EXPECT_EQ(ended.life, 2U);
    EXPECT_EQ(ended.exit_code, 0);
  }
};

// As a trainer does with the programs that fetch its data.
TEST_F(AgentLeftovers, InAGroupOfTheirOwnEndBeforeTheNextLife) {
  expect_ended(
      "perl -e 'setpgrp; open F, q(>), q(left.new); print F $$; close F;"
      " rename q(left.new), q(left); exec q(sleep), 1000'");
}

// As a program does that such a program puts into the background with setsid(1).
TEST_F(AgentLeftovers, InASessionOfTheirOwnEndBeforeTheNextLife) {
  expect_ended("setsid sh -c 'echo $$ >left.new; mv left.new left; exec sleep 1000'");
}

TEST_F(AgentTest, AProcessThatFailsIsStartedAgainAsOftenAsItMay) {
  const auto agent = connect_agent();
  push_script(*agent, "mortal", kMortal);
  ProcessSpec spec = script("mortal", "p");
  spec.arguments = {"{life}", "3", "{again}"};
  spec.restarts = 2;
  ASSERT_TRUE(agent->start(spec));
  const ProcessStatus good = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(good.state, ProcessState::kExited);
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.life, 3U);
  const std::string log = wait_log(*agent, spec.log, "life 3 again true\n");
  EXPECT_NE(log.find("life 1 again false\n"), std::string::npos) << log;
  EXPECT_NE(log.find("paddlectl: killed by signal 9; it is started again\n"), std::string::npos);

  // Its lives are counted on when it is started anew; now it may not fail as often as it does.
  spec.arguments[1] = "9";
  ASSERT_TRUE(agent->start(spec));
  const ProcessStatus bad = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(bad.state, ProcessState::kKilled);
  EXPECT_EQ(bad.signal, 9);
  EXPECT_EQ(bad.life, 6U);
  ASSERT_TRUE(agent->restart("job-1", {"p"}));
  EXPECT_EQ(wait_end(*agent, "job-1", "p").life, 9U);
  EXPECT_FALSE(agent->restart("job-1", {"q"}));
}

TEST_F(AgentTest, AStopEndsThePauseBeforeAnotherLife) {
  const auto agent = connect_agent();
  push_script(*agent, "mortal", kMortal);
  ProcessSpec spec = script("mortal", "p");
  spec.arguments = {"{life}", "999", "{again}"};
  spec.restarts = 1000;
  ASSERT_TRUE(agent->start(spec));
  // The pauses double: in the third there is time.
  wait_log(*agent, spec.log, "life 3 ");
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  const ProcessStatus status = wait_end(*agent, "job-1", "p");
  EXPECT_TRUE(status.stopped);
  EXPECT_LT(status.life, 6U);
}

TEST_F(AgentTest, AProgramOfTheUsersOwnIsFoundInPath) {
  const auto agent = connect_agent();
  ProcessSpec spec = script("none", "p");
  spec.program = "";
  spec.arguments = {"sh", "-c", "echo $0 in $PWD; exit 3", "{life}"};
  ASSERT_TRUE(agent->start(spec));
  EXPECT_EQ(wait_end(*agent, "job-1", "p").exit_code, 3);
  wait_log(*agent, spec.log, "1 in ");
  spec.arguments = {"no-such-program"};
  const Status missing = agent->start(spec);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("cannot execute no-such-program"), std::string::npos);
}

TEST_F(AgentTest, DeathBySignalIsReported) {
  auto agent = connect_agent();
  push_script(*agent, "die", "kill -SEGV $$");
  ASSERT_TRUE(agent->start(script("die", "trainer-0")));
  const ProcessStatus status = wait_end(*agent, "job-1", "trainer-0");
  EXPECT_EQ(status.state, ProcessState::kKilled);
  EXPECT_EQ(status.signal, SIGSEGV);
  // A stop that comes later changes nothing about how it ended; a new start forgets a stop.
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(1)));
  EXPECT_FALSE(agent->processes("job-1")->at(0).stopped);
  push_script(*agent, "long", "exec sleep 1000");
  ASSERT_TRUE(agent->start(script("long", "trainer-0")));
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(20)));
  EXPECT_TRUE(agent->processes("job-1")->at(0).stopped);
  ASSERT_TRUE(agent->start(script("die", "trainer-0")));
  EXPECT_FALSE(wait_end(*agent, "job-1", "trainer-0").stopped);
}

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
  const auto end_of = [&](const std::string& name, const std::string& waiting_life) {
    ProcessSpec spec = script("late", name);
    spec.arguments = {"{life}", waiting_life};
    spec.restarts = 5;
    EXPECT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, "waits");
    EXPECT_TRUE(agent->ask_to_stop("job-1", {name}));
    return wait_end(*agent, "job-1", name);
  };
  const ProcessStatus first = end_of("first", "1");
  EXPECT_EQ(first.exit_code, 130);
  EXPECT_EQ(first.life, 1U);
  EXPECT_TRUE(first.stopped);
  const ProcessStatus second = end_of("second", "2");
  EXPECT_EQ(second.exit_code, 75);
  EXPECT_EQ(second.life, 3U) << "the others wait for it, to save";
  EXPECT_TRUE(second.stopped);
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
  EXPECT_EQ(report->remaining, std::vector<std::string>{});
  EXPECT_TRUE(bystander.lives()) << "it only looked around";
}

TEST_F(AgentTest, FailureToExecuteIsNamedAtOnce) {
  auto agent = connect_agent();
  const auto missing = agent->start(script("nothing", "a"));
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.starts_with("node here: ")) << missing.error().message;
  EXPECT_NE(missing.error().message.find("bin/nothing"), std::string::npos);
  const std::string local = write_file(folder_ + "/plain", "not a program");
  ASSERT_TRUE(push(*agent, {{local, "bin/plain", false}}));
  const auto refused = agent->start(script("plain", "b"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cannot execute bin/plain: Permission denied"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(agent->processes("job-1")->size(), 0U);
  ProcessSpec outside = script("plain", "c");
  outside.program = "../../bin/sh";
  EXPECT_FALSE(agent->start(outside));
  EXPECT_FALSE(agent->start(script("plain", "../c")));
}

TEST_F(AgentTest, ProcessOutlivesTheAgentAndANewClientSeesItsEnd) {
  push_script(*connect_agent(), "wait",
              "while ! [ -e go ]; do sleep 0.05; done; echo went; exit 7");
  ASSERT_TRUE(connect_agent()->start(script("wait", "trainer-0")));
  auto second = connect_agent();
  ASSERT_EQ(second->processes("")->size(), 1U);
  EXPECT_EQ(second->processes("")->at(0).state, ProcessState::kRunning);
  EXPECT_FALSE(second->start(script("wait", "trainer-0"))) << "started twice";
  second.reset();
  write_file(node_.root + "/jobs/job-1/work/go", "");
  auto third = connect_agent();
  EXPECT_EQ(wait_end(*third, "job-1", "trainer-0").exit_code, 7);
  EXPECT_EQ(third->read_log("jobs/job-1/output/trainer-0.log", 0, 100)->data, "went\n");
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

TEST_F(AgentTest, ProcessDiesWithItsSupervisorAndIsLost) {
  auto agent = connect_agent();
  push_script(*agent, "long", "echo ready; exec sleep 1000");
  ASSERT_TRUE(agent->start(script("long", "trainer-0")));
  wait_log(*agent, "jobs/job-1/output/trainer-0.log", "ready");
  const int pid = agent->processes("job-1")->at(0).pid;
  const std::string stat = file_content("/proc/" + std::to_string(pid) + "/stat");
  const int supervisor = std::atoi(stat.c_str() + stat.rfind(')') + 4);
  ASSERT_GT(supervisor, 1);
  ASSERT_EQ(::kill(supervisor, SIGKILL), 0);
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").state, ProcessState::kLost);
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(1)));
  EXPECT_EQ(processes_using(node_.root + "/jobs"), std::vector<int>{});
}

TEST_F(AgentTest, TwoJobsStandSideBySide) {
  auto agent = connect_agent();
  push_script(*agent, "long", "echo $1; exec sleep 1000");
  for (const char* job : {"job-1", "job-2"}) {
    ProcessSpec spec = script("long", "trainer-0");
    spec.job = job;
    spec.arguments = {job};
    spec.log = std::string("jobs/") + job + "/output/log";
    ASSERT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, job);
  }
  EXPECT_EQ(agent->processes("")->size(), 2U);
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(20)));
  EXPECT_EQ(agent->processes("job-1")->at(0).signal, SIGTERM);
  EXPECT_EQ(agent->processes("job-2")->at(0).state, ProcessState::kRunning);
}

TEST_F(AgentTest, LogIsFollowedByOffset) {
  auto agent = connect_agent();
  push_script(*agent, "count", "echo one; while ! [ -e go ]; do sleep 0.05; done; echo two");
  ASSERT_TRUE(agent->start(script("count", "t")));
  const std::string log = "jobs/job-1/output/t.log";
  EXPECT_EQ(wait_log(*agent, log, "one"), "one\n");
  EXPECT_EQ(agent->read_log(log, 4, 100)->data, "");
  write_file(node_.root + "/jobs/job-1/work/go", "");
  wait_end(*agent, "job-1", "t");
  EXPECT_EQ(agent->read_log(log, 4, 100)->data, "two\n");
  EXPECT_EQ(agent->read_log(log, 0, 3)->data, "one");
  EXPECT_EQ(agent->read_log(log, 0, 3)->next_offset, 3U);
}

}  // namespace
}  // namespace paddle::remote
