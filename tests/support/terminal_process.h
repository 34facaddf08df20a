// A child process of a test with a terminal of its own, and the person who types at it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace paddle::test {

class TerminalProcess {
 public:
  static constexpr auto kDeadline = std::chrono::seconds(60);

  TerminalProcess(std::vector<std::string> arguments, std::vector<std::string> environment)
      : terminal_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (!terminal_ || ::grantpt(terminal_.get()) != 0 || ::unlockpt(terminal_.get()) != 0) return;
    char name[64];
    if (::ptsname_r(terminal_.get(), name, sizeof name) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, name, O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    if (::posix_spawn(&pid_, arguments[0].c_str(), &actions, &attributes,
                      pointers(arguments).data(), pointers(environment).data()) != 0) {
      pid_ = -1;
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;
  ~TerminalProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  int pid() const { return pid_; }
  // All that the terminal has shown.
  const std::string& shown() const { return shown_; }
  // Whether `text` is shown, beyond what an earlier call found.
  bool shows(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
      if (const auto at = shown_.find(text, seen_); at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > end || !read_some()) return false;
    }
  }
  void type(const std::string& line) {
    const std::string text = line + "\n";
    [[maybe_unused]] const ssize_t put = ::write(terminal_.get(), text.data(), text.size());
  }
  // The exit code, or -1 when it was killed or does not end.
  int wait() {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    while (read_some()) {
      if (std::chrono::steady_clock::now() > end) return -1;
    }
    int status = 0;
    if (pid_ <= 0 || ::waitpid(std::exchange(pid_, -1), &status, 0) < 0) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }
  // False when nobody has the terminal open any more.
  bool read_some() {
    pollfd item{terminal_.get(), POLLIN, 0};
    if (::poll(&item, 1, 100) == 0) return true;
    char chunk[4096];
    const ssize_t got = ::read(terminal_.get(), chunk, sizeof chunk);
    if (got <= 0) return false;
    shown_.append(chunk, static_cast<std::size_t>(got));
    return true;
  }

  UniqueFd terminal_;
  pid_t pid_ = -1;
  std::string shown_;
  std::size_t seen_ = 0;
};

}  // namespace paddle::test
