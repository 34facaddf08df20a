// Processes that a real agent starts, and their ends as it tells of them.
#include "remote/agent/process/processes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "remote/agent/node/root.h"
#include "tests/support/core_limit.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

// The fourth field of /proc/<pid>/stat.
int parent_of(int pid) {
  const std::string stat = file_content("/proc/" + std::to_string(pid) + "/stat");
  return std::atoi(stat.c_str() + stat.rfind(')') + 4);
}

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
  const auto log = agent->read_file(spec.log, 0, 1000);
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
  const std::string log = agent->read_file(spec.log, 0, 1000)->data;
  EXPECT_TRUE(log.starts_with("blue " + node_.root + " /")) << log;
  EXPECT_EQ(log.find("/nowhere"), std::string::npos) << log;
  EXPECT_TRUE(log.ends_with("\n1\n")) << log;
}

TEST_F(AgentTest, AProcessHasTheLimitOfCoreFilesThatTheNodeGives) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer lets no program write core files";
#endif
  std::optional<test::RaisedCoreLimit> raised(std::in_place);
  auto agent = connect_agent();
  raised.reset();
  push_script(*agent, "limit", "test `ulimit -S -c` = `ulimit -H -c`");
  ASSERT_TRUE(agent->start(script("limit", "trainer-0")));
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").exit_code, 0);
}

TEST_F(AgentTest, AProgramOfTheUsersOwnIsFoundInPath) {
  const auto agent = connect_agent();
  ProcessSpec spec = script("none", "p");
  spec.program = "";
  spec.arguments = {"sh", "-c", "echo $0 in $PWD; exit 3", "{incarnation}"};
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

TEST_F(AgentTest, AProgramThatCannotBeExecutedHasTheNextStepForItsReason) {
  auto agent = connect_agent();
  ProcessSpec spec = script("none", "p");
  spec.program = "";
  int started = 0;
  const auto hint_for = [&](const std::string& name) {
    spec.name = "p-" + std::to_string(++started);  // the supervisor of the last one may still run
    spec.arguments = {name};
    const Status failed = agent->start(spec);
    EXPECT_FALSE(failed) << name;
    return failed ? "" : failed.error().hint;
  };
  const auto hint_for_text = [&](const std::string& text) {
    const std::string file = write_file(folder_ + "/own.sh", text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return hint_for(file);
  };
  EXPECT_NE(hint_for_text("#!/bin/sh\r\n").find("Windows line end"), std::string::npos);
  EXPECT_NE(hint_for_text("#!/no/python3\n").find("names /no/python3"), std::string::npos);
  EXPECT_EQ(hint_for_text("echo no first line\n"), "add a first line such as #!/bin/sh");
  EXPECT_EQ(hint_for_text("\x7f"
                          "ELF"),
            "it is a program for another processor");
  EXPECT_EQ(hint_for(folder_), "it is a folder: name a program in it");
  EXPECT_NE(hint_for("python3 train.py").find("each argument as a string of its own"),
            std::string::npos);
  for (const char* name : {"~/venv/bin/python", "$HOME/python", "~/my python"})
    EXPECT_TRUE(hint_for(name).starts_with("no shell expands")) << name;
  EXPECT_EQ(hint_for("/no/program"), "put it into the workspace, or install it on the node");
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
  EXPECT_EQ(third->read_file("jobs/job-1/output/trainer-0.log", 0, 100)->data, "went\n");
}

TEST_F(AgentTest, ProcessDiesWithItsSupervisorAndIsLost) {
  auto agent = connect_agent();
  push_script(*agent, "long", "echo ready; exec sleep 1000");
  ASSERT_TRUE(agent->start(script("long", "trainer-0")));
  wait_log(*agent, "jobs/job-1/output/trainer-0.log", "ready");
  const int pid = agent->processes("job-1")->at(0).pid;
  const int supervisor = parent_of(pid);
  ASSERT_GT(supervisor, 1);
  ASSERT_EQ(::kill(supervisor, SIGKILL), 0);
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").state, ProcessState::kLost);
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(1)));
  EXPECT_EQ(processes_using(node_.root + "/jobs"), std::vector<int>{});
}

TEST_F(AgentTest, AProcessWhoseSupervisorIsPausedIsStoppedByAnOrderAndNotLost) {
  auto agent = connect_agent();
  push_script(*agent, "long", "echo ready; exec sleep 1000");
  ASSERT_TRUE(agent->start(script("long", "trainer-0")));
  wait_log(*agent, "jobs/job-1/output/trainer-0.log", "ready");
  const int pid = agent->processes("job-1")->at(0).pid;
  const int supervisor = parent_of(pid);
  ASSERT_GT(supervisor, 1);
  ASSERT_EQ(::kill(supervisor, SIGSTOP), 0);
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(1)));
  EXPECT_TRUE(wait_end(*agent, "job-1", "trainer-0").stopped);
}

// As a batch system announces the end of an allocation: to all processes of the node, maybe twice.
TEST_F(AgentTest, ASupervisorAsksItsTrainerToSaveWhenTheTimeOfItsNodeEnds) {
  const auto agent = connect_agent();
  push_script(*agent, "counts",
              "trap 'echo asked' TERM\necho runs\n"
              "until [ -e go ]; do sleep 0.01; done\nexit 75");
  const auto announce = [&](const std::string& name) {
    const ProcessSpec spec = script("counts", name);
    EXPECT_TRUE(agent->start(spec));
    wait_log(*agent, spec.log, "runs");
    const auto listed = agent->processes("job-1");
    const auto process = std::ranges::find(*listed, name, &ProcessStatus::name);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(::kill(parent_of(process->pid), SIGURG), 0) << name;
    return spec;
  };
  const ProcessSpec pserver = announce("pserver-0");
  const ProcessSpec trainer = announce("trainer-0");
  wait_log(*agent, trainer.log, "asked\n");
  write_file(node_.root + "/" + trainer.directory + "/go", "");
  const ProcessStatus ended = wait_end(*agent, "job-1", "trainer-0");
  EXPECT_EQ(ended.exit_code, 75);
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.stopped_by, "the time limit of its nodes");
  const std::string log = file_content(node_.root + "/" + trainer.log);
  EXPECT_EQ(log.find("asked\n"), log.rfind("asked\n")) << log;
  EXPECT_EQ(file_content(node_.root + "/" + pserver.log).find("asked"), std::string::npos)
      << "it ends when its trainers have left";
  EXPECT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(0)));
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

using AgentDeathTest = AgentTest;

TEST_F(AgentDeathTest, AProcessThatCannotBeDescribedInMemoryIsNamed) {
  const auto start = [this] {
    const auto root = agent::open_root(folder_);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    wire::agent::ProcessSpec spec;
    spec.set_job("job-1");
    spec.set_name("trainer-0");
    spec.add_arguments(std::string(4000, 'x'));
    const Status started = agent::start_process(*root, spec);
    if (!started) std::fprintf(stderr, "%s\n", started.error().message.c_str());
    ::_exit(started ? 0 : static_cast<int>(started.error().code));
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(static_cast<int>(Errc::kResource)),
              "start job-1/trainer-0: write: File too large");
}

}  // namespace
}  // namespace paddle::remote
