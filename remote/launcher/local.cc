// The local launcher: a socket pair and a shell, so that everything above it is what SSH nodes get.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <thread>

#include "proto/frame_stream.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kStderrTailBytes = 4096;
// A command whose channel was closed ends by itself within this; then SIGTERM, then SIGKILL.
constexpr int kEndMs = 1000;

// The shell's process and the last words it wrote to stderr.
class LocalCommand {
 public:
  LocalCommand(pid_t pid, UniqueFd pidfd, UniqueFd errors, UniqueFd wake_read, UniqueFd wake_write)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        errors_(std::move(errors)),
        wake_read_(std::move(wake_read)),
        wake_write_(std::move(wake_write)),
        pump_([this] { pump(); }) {}

  ~LocalCommand() {
    for (const int signal : {0, SIGTERM, SIGKILL}) {
      if (signal != 0) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
      pollfd ended{pidfd_.get(), POLLIN, 0};
      if (::poll(&ended, 1, kEndMs) > 0) break;
    }
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    wake_write_.reset();
    pump_.join();
  }
  LocalCommand(const LocalCommand&) = delete;
  LocalCommand& operator=(const LocalCommand&) = delete;

  // With all that was written before: what an answer on the channel tells of is in it.
  std::string stderr_tail() {
    const std::lock_guard lock(mutex_);
    (void)take_errors();
    return tail_;
  }

 private:
  void pump() {
    for (;;) {
      pollfd polls[] = {{errors_.get(), POLLIN, 0}, {wake_read_.get(), POLLIN, 0}};
      if (::poll(polls, 2, -1) < 0 && errno != EINTR) return;
      if (polls[0].revents != 0) {
        const std::lock_guard lock(mutex_);
        if (!take_errors()) return;
      } else if (polls[1].revents != 0) {
        return;
      }
    }
  }

  // What the pipe holds; false at its end.
  bool take_errors() {
    for (;;) {
      char buffer[kStderrTailBytes];
      const ssize_t got = ::read(errors_.get(), buffer, sizeof buffer);
      if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
      tail_.append(buffer, static_cast<std::size_t>(got));
      if (tail_.size() > kStderrTailBytes) tail_.erase(0, tail_.size() - kStderrTailBytes);
    }
  }

  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd errors_;
  UniqueFd wake_read_;
  UniqueFd wake_write_;
  std::mutex mutex_;
  std::string tail_;
  std::thread pump_;
};

// /bin/sh -c command in its own session, as sshd would; Ctrl-C in our terminal does not reach it.
Result<pid_t> spawn_shell(const std::string& command, int channel, int errors) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, channel, 0);
  ::posix_spawn_file_actions_adddup2(&actions, channel, 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors, 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  sigset_t none;
  sigset_t defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGQUIT}) {
    ::sigaddset(&defaults, signal);
  }
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  std::string text = command;
  char shell[] = "/bin/sh";
  char option[] = "-c";
  char* const arguments[] = {shell, option, text.data(), nullptr};
  pid_t pid = -1;
  const int failure = ::posix_spawn(&pid, shell, &actions, &attributes, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure == 0) return pid;
  errno = failure;
  return system_error(Errc::kResource, "start /bin/sh");
}

class LocalLauncher final : public Launcher {
 public:
  Result<Channel> run(const std::string& constant_command, TimePoint /*deadline*/) override {
    int channel[2];
    int errors[2];
    int wake[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) {
      return system_error(Errc::kResource, "socketpair");
    }
    UniqueFd ours(channel[0]);
    const UniqueFd theirs(channel[1]);
    if (::pipe2(errors, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
    UniqueFd errors_read(errors[0]);
    const UniqueFd errors_write(errors[1]);
    PADDLE_TRY_STATUS(set_nonblocking(errors_read.get()));
    if (::pipe2(wake, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
    UniqueFd wake_read(wake[0]);
    UniqueFd wake_write(wake[1]);
    PADDLE_TRY(const pid_t pid, spawn_shell(constant_command, theirs.get(), errors_write.get()));
    // Cannot be recycled before we wait for it.
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    auto running = std::make_shared<LocalCommand>(pid, std::move(pidfd), std::move(errors_read),
                                                  std::move(wake_read), std::move(wake_write));
    return Channel{running, [running] { return running->stderr_tail(); }, std::move(ours)};
  }
};

}  // namespace

Result<std::unique_ptr<Launcher>> make_local_launcher(const NodeSpec& /*node*/) {
  return std::unique_ptr<Launcher>(std::make_unique<LocalLauncher>());
}

}  // namespace paddle::remote
