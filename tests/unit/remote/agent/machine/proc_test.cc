#include "remote/agent/machine/proc.h"

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
