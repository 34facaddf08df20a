// A child process of a test: its output goes to a file, and it never outlives the test.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

class Process {
 public:
  // arguments[0] is the program. Standard output and error are appended to output_file.
  Process(std::vector<std::string> arguments, std::string output_file,
          std::vector<std::string> environment = {"PATH=/usr/bin:/bin"})
      : output_file_(std::move(output_file)) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output_file_.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (::posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                      pointers(environment).data()) != 0) {
      pid_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    if (pid_ > 0) pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        pidfd_(std::move(other.pidfd_)),
        output_file_(std::move(other.output_file_)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  int pid() const { return pid_; }
  std::string output() const { return TemporaryFolder::read(output_file_); }
  void signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);
  }
  // The exit code, 128 + the signal's number, or nothing if it still runs after the deadline.
  std::optional<int> wait(std::chrono::milliseconds deadline = std::chrono::seconds(100)) {
    if (pid_ <= 0 || !ended_within(deadline)) return {};
    int status = 0;
    ::wait4(std::exchange(pid_, -1), &status, 0, &used_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Its largest resident memory, once it has ended.
  std::uint64_t peak_bytes() const { return static_cast<std::uint64_t>(used_.ru_maxrss) << 10U; }
  // Whether `text` comes in the output while the process lives.
  bool prints(const std::string& text,
              std::chrono::seconds deadline = std::chrono::seconds(60)) const {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (std::chrono::steady_clock::now() < end) {
      const bool ended = ended_within(std::chrono::milliseconds(10));
      if (output().find(text) != std::string::npos) return true;
      if (ended) return false;
    }
    return false;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }
  bool ended_within(std::chrono::milliseconds deadline) const {
    pollfd waiting{pidfd_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, static_cast<int>(deadline.count())) > 0;
  }

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  rusage used_{};  // by the process, once it has ended
  std::string output_file_;
};

}  // namespace paddle::test
