#include "remote/agent/node/proc.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

namespace paddle::agent {
namespace {

// A child that waits to be killed.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(Proc, AProcessIsAliveOnlyWithItsStartTime) {
  const Child child;
  ProcStat stat;
  ASSERT_TRUE(read_stat(child.pid(), stat));
  EXPECT_TRUE(is_alive(child.pid(), stat.start_ticks));
  EXPECT_FALSE(is_alive(child.pid(), stat.start_ticks + 1)) << "its number was another's before";
  EXPECT_FALSE(is_alive(child.pid(), stat.start_ticks - 1));
}

// A search for the processes of a job would miss one that is just in execve(2).
TEST(Proc, TheEnvironmentIsKnownAlsoWhileAProcessReplacesItsProgram) {
  constexpr int kLooks = 20'000;
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const char* const again = "exec /bin/sh -c \"$0\" \"$0\"";
    char mark[] = "PADDLE_TEST_MARK=here";
    char* const environment[] = {mark, nullptr};
    ::execle("/bin/sh", "sh", "-c", again, again, nullptr, environment);
    ::_exit(127);
  }
  // Until the first program of its own, it has the environment of this test.
  while (environment_of(pid, "PADDLE_TEST_MARK").empty()) ASSERT_EQ(::kill(pid, 0), 0);
  int missed = 0;
  for (int i = 0; i < kLooks; ++i) missed += environment_of(pid, "PADDLE_TEST_MARK") != "here";
  ::kill(pid, SIGKILL);
  EXPECT_EQ(missed, 0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  // A zombie, and then no process, without a wait.
  EXPECT_EQ(environment_of(pid, "PADDLE_TEST_MARK"), "");
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(environment_of(pid, "PADDLE_TEST_MARK"), "");
}

TEST(Proc, AProcessMayHaveNoEnvironmentAtAll) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    char* const none[] = {nullptr};
    ::execle("/bin/sleep", "sleep", "1000", nullptr, none);
    ::_exit(127);
  }
  while (link_of(pid, "exe") == link_of(::getpid(), "exe")) ASSERT_EQ(::kill(pid, 0), 0);
  EXPECT_EQ(environment_of(pid, "PATH"), "");
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(Proc, ASignalMissesAProcessThatGotTheNumberOfAnother) {
  const Child child;
  ProcStat stat;
  ASSERT_TRUE(read_stat(child.pid(), stat));
  ProcStat before = stat;
  --before.start_ticks;
  EXPECT_FALSE(send_signal(before, SIGKILL));
  EXPECT_TRUE(is_alive(child.pid(), stat.start_ticks));
  EXPECT_TRUE(send_signal(stat, SIGKILL));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_alive(child.pid(), stat.start_ticks)) << "a zombie does not run";
}

TEST(Proc, OwnProcessesAreThoseOfThisUserWithoutUs) {
  const Child child;
  const auto all = own_processes();
  EXPECT_EQ(std::ranges::count(all, child.pid(), &ProcStat::pid), 1);
  EXPECT_EQ(std::ranges::count(all, ::getpid(), &ProcStat::pid), 0);
}

}  // namespace
}  // namespace paddle::agent
