#include "base/thread.h"

#include <csignal>

#include <gtest/gtest.h>

namespace paddle {
namespace {

bool blocks(int signal) {
  ::sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return ::sigismember(&mask, signal) == 1;
}

TEST(ThreadTest, WithoutSignalsBlocksThemAllAndLeavesTheMaskOfTheCaller) {
  ::sigset_t only_usr1;
  ::sigset_t before;
  ::sigemptyset(&only_usr1);
  ::sigaddset(&only_usr1, SIGUSR1);
  ::pthread_sigmask(SIG_SETMASK, &only_usr1, &before);
  bool blocks_all = false;
  std::thread thread = thread_without_signals([&] {
    blocks_all = blocks(SIGTERM) && blocks(SIGINT) && blocks(SIGUSR1) && blocks(SIGCHLD);
  });
  thread.join();
  EXPECT_TRUE(blocks_all);
  EXPECT_TRUE(blocks(SIGUSR1));
  EXPECT_FALSE(blocks(SIGTERM));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace paddle
