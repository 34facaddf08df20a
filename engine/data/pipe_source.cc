// Source of the bytes that a program prints: any program can read a file or fetch an object.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/secret.h"
#include "base/text.h"
#include "engine/data/byte_source.h"

namespace paddle::data {
namespace {

constexpr Duration kKillDeadline = std::chrono::seconds(5);

// Replaces the forked child by the program, with async-signal-safe calls only. On failure it writes
// errno to `failure`.
[[noreturn]] void execute(char* const* arguments, const char* folder, int input, int output,
                          int failure, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_DFL);
  if (::getppid() == parent && ::dup2(input, STDIN_FILENO) >= 0 &&
      ::dup2(output, STDOUT_FILENO) >= 0 && ::chdir(folder) == 0) {
    restore_cores();
    ::execvp(arguments[0], arguments);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof(error));
  ::_exit(127);
}

class PipeSource final : public ByteSource {
 public:
  PipeSource(std::string name, Duration timeout, int stop_fd)
      : name_(std::move(name)), timeout_(timeout), stop_fd_(stop_fd) {}
  ~PipeSource() override { end(); }
  PipeSource(const PipeSource&) = delete;
  PipeSource& operator=(const PipeSource&) = delete;

  Status start(UniqueFd file, std::vector<std::string> texts, const std::string& folder) {
    file_ = std::move(file);
    if (stop_fd_ < 0) return Error{Errc::kResource, name_ + ": no file descriptors are left"};
    PADDLE_TRY(Pipe output, make_pipe());
    PADDLE_TRY(Pipe failure, make_pipe());
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) return system_error(Errc::kResource, name_ + ": fork");
    if (pid_ == 0) {
      execute(arguments.data(), folder.c_str(), file_.get(), output.write.get(),
              failure.write.get(), parent);
    }
    ::setpgid(pid_, pid_);
    output_ = std::move(output.read);
    failure.write.reset();
    int error = 0;
    ssize_t got = -1;
    do got = ::read(failure.read.get(), &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    if (got == sizeof(error)) {
      return Error{Errc::kData, fmt::format("{}: cannot start: {}", name_, std::strerror(error)),
                   "it is an argument list, run in the folder of job.toml, without a shell"};
    }
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!pidfd_) return system_error(Errc::kResource, name_ + ": pidfd_open");
    return {};
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    if (pid_ < 0) return std::size_t{0};
    for (;;) {
      PADDLE_TRY(const bool is_readable, wait_for(output_.get(), "has printed nothing"));
      if (!is_readable) break;
      const ssize_t count = ::read(output_.get(), into.data(), into.size());
      if (count > 0) return static_cast<std::size_t>(count);
      if (count == 0) break;
      if (errno != EINTR) return system_error(Errc::kData, name_ + ": read");
    }
    PADDLE_TRY_STATUS(wait_for(pidfd_.get(), "has closed its output but has not ended"));
    const int status = end();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::size_t{0};
    return Error{Errc::kData,
                 WIFEXITED(status) ? fmt::format("{}: ended with {}", name_, WEXITSTATUS(status))
                                   : fmt::format("{}: killed by signal {} ({})", name_,
                                                 WTERMSIG(status), ::strsignal(WTERMSIG(status))),
                 "see its output above"};
  }
  std::uint64_t position() const override { return position_of(file_); }

 private:
  // Waits until `fd` is readable. False: the program has failed before, although a child of it may
  // still hold its output. Never false for pidfd_, the end of the program itself.
  Result<bool> wait_for(int fd, std::string_view without) {
    const TimePoint deadline = std::chrono::steady_clock::now() + timeout_;
    for (;;) {
      const bool is_watched = !has_succeeded_ && fd != pidfd_.get();
      const int program = is_watched ? pidfd_.get() : -1;
      std::array<pollfd, 3> waiting{{{fd, POLLIN, 0}, {stop_fd_, POLLIN, 0}, {program, POLLIN, 0}}};
      const int ready = ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) return system_error(Errc::kData, name_ + ": poll");
      if (waiting[1].revents != 0) return Error{Errc::kInterrupted, name_ + ": stopped"};
      if (waiting[0].revents != 0) return true;
      if (waiting[2].revents != 0) {
        siginfo_t how{};
        ::waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOHANG | WNOWAIT);
        if (how.si_code != CLD_EXITED || how.si_status != 0) return false;
        has_succeeded_ = true;  // a child that holds its output goes on
        continue;
      }
      return Error{Errc::kData,
                   fmt::format("{}: {} for {} s", name_, without,
                               std::chrono::ceil<std::chrono::seconds>(timeout_).count()),
                   "[data] pipe_timeout sets the limit"};
    }
  }

  // Kills the program and its process group, and returns its status. The number of the group cannot
  // be reused before the program is reaped.
  int end() {
    if (pid_ < 0) return 0;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    pollfd ended{pidfd_.get(), POLLIN, 0};
    if (pidfd_) ::poll(&ended, 1, milliseconds_until(SteadyClock().now() + kKillDeadline));
    int status = 0;
    ::waitpid(pid_, &status, pidfd_ ? WNOHANG : 0);
    pid_ = -1;
    return status;
  }

  std::string name_;
  UniqueFd file_;  // the program's input, whose offset it moves
  Duration timeout_;
  int stop_fd_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd output_;
  bool has_succeeded_ = false;
};

std::string text_of(const std::vector<std::string>& arguments) {
  return escape_control(fmt::format("{}", fmt::join(arguments, " ")));
}

Result<std::unique_ptr<ByteSource>> start(std::string name, UniqueFd input,
                                          std::vector<std::string> arguments,
                                          const SourceOptions& options) {
  auto source =
      std::make_unique<PipeSource>(std::move(name), options.pipe_timeout, options.stop_fd);
  PADDLE_TRY_STATUS(source->start(std::move(input), std::move(arguments), options.folder));
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_pipe(UniqueFd file, const std::string& path,
                                              const SourceOptions& options) {
  return start(fmt::format("pipe_command '{}' on {}", text_of(options.pipe_command), path),
               std::move(file), options.pipe_command, options);
}

Result<std::unique_ptr<ByteSource>> open_command(std::string_view verb, const std::string& name,
                                                 const SourceOptions& options) {
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return system_error(Errc::kResource, "open /dev/null");
  std::vector<std::string> arguments = options.command;
  arguments.insert(arguments.end(), {std::string(verb), name});
  std::string shown = fmt::format("command '{}'", text_of(arguments));
  return start(std::move(shown), std::move(nothing), std::move(arguments), options);
}

}  // namespace paddle::data
