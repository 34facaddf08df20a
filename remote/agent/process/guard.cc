#include "remote/agent/process/guard.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "base/clock.h"
#include "remote/agent/process/restart_policy.h"

namespace paddle::agent {
namespace {

TimePoint time_now() {
  return std::chrono::steady_clock::now();
}

class Guard {
 public:
  Guard() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals_, signal);
    ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }

  bool is_told_to_end() const { return is_told_to_end_; }
  // Reaps it and, as a subreaper, whatever it leaves. The status of wait(2).
  int wait_for(pid_t supervisor) {
    for (;;) {
      int status = 0;
      for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended == supervisor) return status;
      }
      if (is_end(::sigwaitinfo(&signals_, nullptr))) ::kill(supervisor, SIGTERM);
    }
  }
  void pause(Duration time) {
    const TimePoint until = time_now() + time;
    for (int ms = 0; !is_told_to_end_ && (ms = milliseconds_until(until)) > 0;) {
      const timespec left{ms / 1000, ms % 1000 * 1'000'000L};
      is_end(::sigtimedwait(&signals_, nullptr, &left));
    }
  }

 private:
  bool is_end(int signal) {
    const bool is_end = signal > 0 && signal != SIGCHLD;
    is_told_to_end_ = is_told_to_end_ || is_end;
    return is_end;
  }

  sigset_t signals_{};
  bool is_told_to_end_ = false;
};

}  // namespace

int guard(const wire::agent::ProcessSpec& spec, const std::function<int(int start)>& supervise,
          const std::function<bool()>& goes_on, UniqueFd& status) {
  constexpr int kLost = 1;
  Guard guard;
  RestartPolicy policy(spec);
  for (int start = 1;; ++start) {
    const TimePoint started = time_now();
    const pid_t supervisor = ::fork();
    if (supervisor == 0) return supervise(start);
    if (supervisor < 0) return start == 1 ? supervise(start) : kLost;  // unguarded
    status.reset();
    const int end = guard.wait_for(supervisor);
    if (!WIFSIGNALED(end)) return WEXITSTATUS(end);
    if (guard.is_told_to_end() || !goes_on()) return kLost;
    const auto pause = policy.next({end, started, time_now(), {}});
    if (!pause) return kLost;
    guard.pause(*pause);
    if (guard.is_told_to_end() || !goes_on()) return kLost;
  }
}

}  // namespace paddle::agent
