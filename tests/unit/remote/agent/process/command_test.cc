// Commands of `paddlectl exec` and the copies of `put` and `get`, on a real agent.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;

struct Ran {
  std::string out, error;
  CommandEnd end;
};

Ran run(AgentClient& agent, const std::vector<std::string>& arguments, Duration timeout = {}) {
  Ran ran;
  const auto end = agent.run(
      {arguments, timeout},
      [&](std::string_view text, bool is_stderr) { (is_stderr ? ran.error : ran.out) += text; },
      nullptr);
  EXPECT_TRUE(end) << end.error().message;
  if (end) ran.end = *end;
  return ran;
}

TEST_F(AgentTest, CommandGetsTheNodesVariablesAndItsOwn) {
  auto agent = connect_agent();
  std::string said;
  const auto end = agent->run(
      {.arguments = {"/bin/sh", "-c", "echo $OWN $HOME"},
       .environment = {{"OWN", "a b"}, {"HOME", "/nowhere"}}},
      [&](std::string_view text, bool) { said += text; }, nullptr);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(said, "a b /nowhere\n");
}

TEST_F(AgentTest, CommandGetsItsArgumentsAsTheyAreAndTellsItsExitCode) {
  auto agent = connect_agent();
  const Ran ran = run(*agent, {"/bin/sh", "-c", "echo \"$1\"; echo bad >&2; cat; exit 7", "sh",
                               "$(echo no); 'x' \xff\n*"});
  EXPECT_EQ(ran.out, "$(echo no); 'x' \xff\n*\n");
  EXPECT_EQ(ran.error, "bad\n");
  EXPECT_EQ(ran.end.exit_code, 7);
  EXPECT_EQ(run(*agent, {"/bin/sh", "-c", "kill -TERM $$"}).end.signal, SIGTERM);
  const Ran none = run(*agent, {"no-such-program-here"});
  EXPECT_EQ(none.end.exit_code, 127);
  EXPECT_NE(none.error.find("no-such-program-here"), std::string::npos);
  EXPECT_FALSE(agent->run(
      {{}, {}}, [](std::string_view, bool) {}, nullptr));
  EXPECT_TRUE(agent->facts());  // the channel serves on
}

TEST_F(AgentTest, AFileThatExistsAndCannotBeExecutedHasItsOwnNextStep) {
  auto agent = connect_agent();
  const auto step_for = [&](const std::string& text) {
    const std::string file = write_file(folder_ + "/x.sh", text);
    fs::permissions(file, fs::perms::owner_all);
    return run(*agent, {file}).end.next_step;
  };
  EXPECT_NE(step_for("#!/bin/sh\r\necho x\r\n").find("Windows line end"), std::string::npos);
  EXPECT_NE(step_for("#!/usr/bin/env sh\r\n").find("Windows line end"), std::string::npos);
  EXPECT_EQ(step_for("#! /no\x1b/python3 -u\n"),
            "its first line names /no\\x1b/python3: install that on the node, or correct the line");
  EXPECT_EQ(step_for("#!/bin/sh\nexit 127\n"), "") << "the script's own code";
  EXPECT_EQ(step_for("#!/bin/sh\r"), step_for("#!/bin/sh\r\n"));
  EXPECT_EQ(run(*agent, {folder_}).end.next_step, "it is a folder: name a program in it");
  EXPECT_EQ(run(*agent, {write_file(folder_ + "/plain", "#!/bin/sh\n")}).end.next_step, "");
  EXPECT_EQ(run(*agent, {"/bin/sh", "-c", "exit 127"}).end.next_step, "");
  EXPECT_EQ(run(*agent, {"no-such-program-here"}).end.next_step, "");
}

TEST_F(AgentTest, ARequestOverItsLimitNamesBothSizes) {
  auto agent = connect_agent();
  const auto refused = agent->run(
      {{"echo", std::string(101'000, 'x')}, {}}, [](std::string_view, bool) {}, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_NE(refused.error().message.find("have 101 kB, and the limit is 64 KiB"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().hint.find("a file"), std::string::npos);
  EXPECT_TRUE(check_size(CommandSpec{{"echo", std::string(65'000, 'x')}, {}}));
  EXPECT_FALSE(check_size(CommandSpec{std::vector<std::string>(40'000, ""), {}}));
  ProcessSpec process;
  process.name = "trainer-0";
  EXPECT_TRUE(check_size(process));
  process.environment["LARGE"] = std::string(70'000, 'x');
  const Status large = check_size(process);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message,
            "trainer-0: the arguments and variables have 70 kB, and the limit is 64 KiB");
}

TEST_F(AgentTest, CommandMayWriteMuchMoreThanAPipeHolds) {
  auto agent = connect_agent();
  const Ran ran = run(*agent, {"/bin/sh", "-c", "head -c 5000000 /dev/zero; echo end >&2"});
  EXPECT_EQ(ran.out.size(), 5'000'000U);
  EXPECT_EQ(ran.error, "end\n");
}

TEST_F(AgentTest, CommandsBackgroundChildDoesNotHoldItsEnd) {
  auto agent = connect_agent();
  const std::string file = folder_ + "/pid";
  const Ran ran = run(*agent, {"/bin/sh", "-c", "sleep 1000 & echo $! > " + file + "; echo done"});
  EXPECT_EQ(ran.out, "done\n");
  ::kill(std::stoi(file_content(file)), SIGKILL);
}

TEST_F(AgentTest, CommandEndsWithAllItStartedWhenItsTimeIsUp) {
  auto agent = connect_agent();
  const std::string mark = folder_ + "/mark";
  fs::create_directory(mark);
  const Ran ran =
      run(*agent, {"/bin/sh", "-c", "cd " + mark + "; trap '' TERM; sleep 1000 & sleep 1000"},
          std::chrono::milliseconds(300));
  EXPECT_TRUE(ran.end.timed_out);
  EXPECT_EQ(processes_using(mark), std::vector<int>{});
}

TEST_F(AgentTest, InterruptedCommandEndsAndTheChannelServesOn) {
  auto agent = connect_agent();
  const std::string mark = folder_ + "/mark";
  fs::create_directory(mark);
  bool started = false;
  const auto end = agent->run(
      {{"/bin/sh", "-c", "cd " + mark + "; echo up; exec sleep 1000"}, {}},
      [&](std::string_view, bool) { started = true; }, [&] { return started; });
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->signal, SIGTERM);
  EXPECT_EQ(processes_using(mark), std::vector<int>{});
  EXPECT_EQ(run(*agent, {"echo", "again"}).out, "again\n");
}

TEST_F(AgentTest, CommandEndsWithItsChannel) {
  const std::string mark = folder_ + "/mark";
  fs::create_directory(mark);
  // The process that holds the channel dies in the middle of the command.
  const pid_t child = ::fork();
  if (child == 0) {
    auto agent = connect(node_, options_);
    if (!agent) ::_exit(1);
    (void)(*agent)->run(
        {{"/bin/sh", "-c", "cd " + mark + "; echo up; exec sleep 1000"}, {}},
        [](std::string_view, bool) { ::_exit(0); }, nullptr);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!processes_using(mark).empty() && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(processes_using(mark), std::vector<int>{});
}

void note_signal(int) {}

TEST_F(AgentTest, CtrlCEndsACommandThatPrintsNothing) {
  auto agent = connect_agent();
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = note_signal;  // and no SA_RESTART, as of Ctrl-C
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> interrupted = false;
  const pthread_t caller = ::pthread_self();
  std::jthread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    interrupted = true;
    ::pthread_kill(caller, SIGUSR1);
  });
  const auto end = agent->run(
      {{"/bin/sleep", "1000"}, {}}, [](std::string_view, bool) {},
      [&] { return interrupted.load(); });
  ::sigaction(SIGUSR1, &before, nullptr);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->signal, SIGTERM);
  EXPECT_TRUE(agent->facts()) << "and the agent is there for the next";
}

}  // namespace
}  // namespace paddle::remote
