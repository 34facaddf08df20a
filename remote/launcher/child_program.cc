#include "remote/launcher/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <fmt/format.h>

namespace paddle::remote {
namespace {

constexpr int kErrorReadsMax = 64;

constexpr std::size_t kOutputTailBytes = 4096;
// Time for the program to end after the channel was closed. After it SIGTERM is sent and, after the
// same time again, SIGKILL.
constexpr int kEndMs = 1000;
// The output of a program ends shortly before its exit status is available.
constexpr Duration kExitPatience = std::chrono::milliseconds(200);

// Our environment with these variables set: "NAME=value" each.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& own) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!own.contains(std::string(text.substr(0, text.find('='))))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : own) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> spawn(const std::vector<std::string>& arguments, int channel, int errors,
                    const ChildProgram::Surroundings& surroundings) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, channel, 0);
  ::posix_spawn_file_actions_adddup2(&actions, channel, 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors, 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (!surroundings.folder.empty())
    ::posix_spawn_file_actions_addchdir_np(&actions, surroundings.folder.c_str());
  sigset_t none;
  sigset_t defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGQUIT}) {
    ::sigaddset(&defaults, signal);
  }
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  const bool is_own = surroundings.session == ChildProgram::Session::kOwn;
  const int own = is_own ? POSIX_SPAWN_SETSID : 0;
  ::posix_spawnattr_setflags(
      &attributes, static_cast<short>(own | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  const std::vector<std::string> variables = environment_with(surroundings.environment);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(variables);
  pid_t pid = -1;
  const int failure =
      ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure == 0) return pid;
  errno = failure;
  return system_error(Errc::kResource, "start " + arguments[0]);
}

}  // namespace

Result<std::shared_ptr<ChildProgram>> ChildProgram::start(const std::vector<std::string>& arguments,
                                                          UniqueFd& channel,
                                                          const Surroundings& surroundings) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return system_error(Errc::kResource, "socketpair");
  }
  UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  PADDLE_TRY(Pipe errors, make_pipe());
  PADDLE_TRY_STATUS(set_nonblocking(errors.read.get()));
  PADDLE_TRY(const pid_t pid, spawn(arguments, theirs.get(), errors.write.get(), surroundings));
  channel = std::move(ours);
  return std::shared_ptr<ChildProgram>(
      new ChildProgram(pid, std::move(errors.read), surroundings.session));
}

ChildProgram::ChildProgram(pid_t pid, UniqueFd errors, Session session)
    : pid_(pid),
      session_(session),
      pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
      errors_(std::move(errors)),
      pump_([this] { pump(); }) {}

ChildProgram::~ChildProgram() {
  const bool is_alone = session_ == Session::kOurs;
  for (const int signal : {is_alone ? SIGTERM : 0, SIGTERM, SIGKILL}) {
    // The program is not reaped yet, so its number and its process group are still its own.
    if (signal != 0) ::kill(is_alone ? pid_ : -pid_, signal);
    pollfd ended{pidfd_.get(), POLLIN, 0};
    if (::poll(&ended, 1, kEndMs) > 0) break;
  }
  pump_.join();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string ChildProgram::stderr_tail() {
  const std::lock_guard lock(mutex_);
  (void)read_errors();
  return tail_;
}

std::optional<int> ChildProgram::wait_status(Duration patience) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(ms)) <= 0) return std::nullopt;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0) return std::nullopt;
  return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
}

std::string ChildProgram::describe_end(const std::string& name) {
  std::string words = name + " is still running";
  if (const auto status = wait_status(kExitPatience)) {
    words = WIFSIGNALED(*status)
                ? fmt::format("{} was killed by signal {}", name, WTERMSIG(*status))
                : fmt::format("{} exited with status {}", name, WEXITSTATUS(*status));
  }
  std::string errors = stderr_tail();
  while (errors.ends_with('\n') || errors.ends_with('\r')) errors.pop_back();
  if (errors.empty()) return words;
  return words + ": " + errors.substr(errors.rfind('\n') + 1);
}

// Returns when the program ends; stderr_tail() reads what its descendants write later.
void ChildProgram::pump() {
  for (;;) {
    pollfd polls[] = {{errors_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}};
    if (::poll(polls, 2, -1) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0) {
      const std::lock_guard lock(mutex_);
      if (!read_errors()) return;
    }
    if (polls[1].revents != 0) return;
  }
}

// Reads the content of the pipe, up to a bound, since a descendant may write without end. False at
// the end of the pipe.
bool ChildProgram::read_errors() {
  for (int reads = 0; reads < kErrorReadsMax; ++reads) {
    char buffer[kOutputTailBytes];
    const ssize_t got = ::read(errors_.get(), buffer, sizeof buffer);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    tail_.append(buffer, static_cast<std::size_t>(got));
    if (tail_.size() > kOutputTailBytes) tail_.erase(0, tail_.size() - kOutputTailBytes);
  }
  return true;
}

}  // namespace paddle::remote
