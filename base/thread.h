// Threads that take no signals.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace paddle {

// Starts a thread that takes no signals: they are for the threads that expect them. A thread has
// its mask from the one that starts it, so the caller's mask is full for that moment.
// Throws std::system_error if the system has no thread left; the caller's mask is as before.
template <typename Run>
std::thread thread_without_signals(Run run) {
  struct FullMask {
    FullMask() {
      ::sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~FullMask() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    FullMask(const FullMask&) = delete;
    FullMask& operator=(const FullMask&) = delete;
    ::sigset_t before{};
  } const mask;
  return std::thread(std::move(run));
}

}  // namespace paddle
