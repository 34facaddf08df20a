#include "remote/agent/process/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/secret.h"
#include "proto/agent_channel.h"
#include "remote/agent/node/proc.h"
#include "remote/agent/process/child.h"

namespace paddle::agent {
namespace {

constexpr int kNotFound = 127;  // a shell's exit code for a command that it cannot find
constexpr int kNotRun = 126;
constexpr std::size_t kOutputChunkBytes = 64U << 10U;
constexpr std::size_t kPipeChunksMax = 64;  // more than a pipe ever holds

void complain(const char* what) {
  const char* const why = ::strerror(errno);
  for (const char* part : {"paddlectl: ", what, ": ", why, "\n"}) {
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, part, std::strlen(part));
  }
}

// Turns the forked child of a single-threaded program into the command.
[[noreturn]] void become(const wire::agent::RunRequest& request, char* const* arguments, int out,
                         int error) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::close_range(3, ~0U, 0);
  for (const int signal : {SIGPIPE, SIGCHLD, SIGXFSZ}) ::signal(signal, SIG_DFL);
  ::umask(022);
  const char* const home = ::getenv("HOME");
  if (home != nullptr && ::chdir(home) != 0) complain(home);
  restore_cores();
  for (const auto& [name, value] : request.environment()) ::setenv(name.c_str(), value.c_str(), 1);
  ::execvp(arguments[0], arguments);
  const int code = errno == ENOENT ? kNotFound : kNotRun;
  complain(arguments[0]);
  ::_exit(code);
}

class Command {
 public:
  using Send =
      std::function<Status(const wire::agent::RunReply& reply, ByteSpan output, bool more)>;

  explicit Command(const Send& send) : send_(send), buffer_(kOutputChunkBytes) {}

  Status start(const wire::agent::RunRequest& request);
  Status run(RequestStream& requests, TimePoint deadline);

 private:
  Result<bool> pass_on(UniqueFd& from, bool is_stderr);
  // Whether the controller can take more output. Without this bound its channel would be full, and
  // a program on the way, such as kubectl, may end when its output is not read for a minute.
  bool may_send() const { return window_ == 0 || sent_ < taken_ + window_; }
  bool take_read(const Frame& frame);
  Result<bool> follow(RequestStream& requests, TimePoint deadline);
  Status drain();
  void end();
  std::string step_after(int exit_code) const;

  const Send& send_;
  std::string program_;
  Bytes buffer_;
  UniqueFd out_, error_;
  UniqueFd end_;  // readable when the process has ended
  pid_t pid_ = 0;
  int status_ = 0;
  std::uint64_t window_ = 0, sent_ = 0, taken_ = 0;  // bytes of output
};

Status Command::start(const wire::agent::RunRequest& request) {
  std::vector<char*> arguments;
  for (const std::string& argument : request.arguments()) {
    if (argument.find('\0') != std::string::npos) {
      return Error{Errc::kUsage, "an argument contains a zero byte", ""};
    }
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  if (arguments.empty()) return Error{Errc::kUsage, "the request names no command", ""};
  program_ = arguments[0];
  window_ = request.window();
  arguments.push_back(nullptr);
  PADDLE_TRY(Pipe out, make_pipe());
  PADDLE_TRY(Pipe error, make_pipe());
  PADDLE_TRY_STATUS(set_nonblocking(out.read.get()));
  PADDLE_TRY_STATUS(set_nonblocking(error.read.get()));
  pid_ = ::fork();
  if (pid_ < 0) return system_error(Errc::kResource, "fork");
  if (pid_ == 0) become(request, arguments.data(), out.write.get(), error.write.get());
  out_ = std::move(out.read);
  error_ = std::move(error.read);
  end_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (end_) return {};
  end();
  return system_error(Errc::kResource, "pidfd_open");
}

// Reads once, so that one stream cannot delay the other or the end.
Result<bool> Command::pass_on(UniqueFd& from, bool is_stderr) {
  const ssize_t got = from ? ::read(from.get(), buffer_.data(), buffer_.size()) : -1;
  if (got == 0) from.reset();
  if (got <= 0) return false;
  sent_ += static_cast<std::uint64_t>(got);
  wire::agent::RunReply reply;
  reply.set_is_stderr(is_stderr);
  PADDLE_TRY_STATUS(send_(reply, ByteSpan(buffer_.data(), static_cast<std::size_t>(got)), true));
  return true;
}

// Reads the output written before the end, up to a bound: other processes may have the pipes open
// and write without end.
Status Command::drain() {
  for (std::size_t i = 0; i < kPipeChunksMax; ++i) {
    PADDLE_TRY(const bool some_out, pass_on(out_, false));
    PADDLE_TRY(const bool some_error, pass_on(error_, true));
    if (!some_out && !some_error) break;
  }
  return {};
}

// Signals the whole session, including processes that outlived its leader.
void Command::end() {
  const auto left = [this] {
    std::vector<ProcStat> members = own_processes();
    std::erase_if(members, [this](const ProcStat& process) { return process.session != pid_; });
    return members;
  };
  std::size_t count = 0;
  const bool gone = end_processes(left, kCommandGrace, count);
  ::waitpid(pid_, &status_, gone ? 0 : WNOHANG);
}

// A command's own exit code may be the same, so this looks at the file.
std::string Command::step_after(int exit_code) const {
  if (exit_code != kNotFound && exit_code != kNotRun) return "";
  if (program_.find('/') == std::string::npos) return "";
  const char* const home = ::getenv("HOME");
  const UniqueFd folder(::open(home == nullptr ? "." : home, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return step_to_execute(folder.get(), program_, exit_code == kNotFound ? ENOENT : EACCES);
}

// True for a frame of kind AGENT_RUN_READ, whose bytes are added to `taken_`.
bool Command::take_read(const Frame& frame) {
  wire::agent::RunRead read;
  if (frame.header.type != wire::agent::AGENT_RUN_READ || !read.ParseFromString(frame.head))
    return false;
  taken_ += read.bytes();
  return true;
}

// Returns when the command has ended or must end; true on timeout.
Result<bool> Command::follow(RequestStream& requests, TimePoint deadline) {
  const auto takes = [this](const Frame& frame) { return take_read(frame); };
  for (;;) {
    std::array<pollfd, 4> items{{{end_.get(), POLLIN, 0},
                                 {requests.fd(), POLLIN, 0},
                                 {may_send() ? out_.get() : -1, POLLIN, 0},
                                 {may_send() ? error_.get() : -1, POLLIN, 0}}};
    const TimePoint until = std::min(deadline, requests.gone_at());
    if (::poll(items.data(), items.size(), milliseconds_until(until)) < 0) continue;
    if (items[0].revents != 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) return false;
    const bool timed_out = std::chrono::steady_clock::now() >= deadline;
    if (timed_out || requests.has_next(takes)) {
      end();
      return timed_out;
    }
    for (UniqueFd* from : {&out_, &error_}) {
      if (!may_send()) break;
      if (auto passed = pass_on(*from, from == &error_); !passed) {
        end();
        return std::move(passed).error();
      }
    }
  }
}

Status Command::run(RequestStream& requests, TimePoint deadline) {
  PADDLE_TRY(const bool timed_out, follow(requests, deadline));
  PADDLE_TRY_STATUS(drain());
  wire::agent::RunReply last;
  if (WIFSIGNALED(status_)) last.set_signal(WTERMSIG(status_));
  if (WIFEXITED(status_)) last.set_exit_code(WEXITSTATUS(status_));
  last.set_timed_out(timed_out);
  last.set_next_step(step_after(last.exit_code()));
  return send_(last, {}, false);
}

}  // namespace

Status run_command(const wire::agent::RunRequest& request, RequestStream& requests,
                   const Command::Send& send) {
  // The agent ignores SIGCHLD, so that the kernel reaps its children; this child must be waited
  // for.
  ::signal(SIGCHLD, SIG_DFL);
  Command command(send);
  Status done = command.start(request);
  if (done) {
    const auto limit = std::chrono::milliseconds(
        std::min<std::uint64_t>(request.timeout_ms(), std::uint64_t{1} << 40U));
    done = command.run(requests, request.timeout_ms() == 0
                                     ? TimePoint::max()
                                     : TimePoint(std::chrono::steady_clock::now()) + limit);
  }
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  ::signal(SIGCHLD, SIG_IGN);
  return done;
}

}  // namespace paddle::agent
