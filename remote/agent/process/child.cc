#include "remote/agent/process/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace paddle::agent {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

bool give_notice_pipe(int pipe) {
  if (pipe == kNoticeFd) return ::fcntl(pipe, F_SETFD, 0) == 0;
  return ::dup2(pipe, kNoticeFd) == kNoticeFd;
}

// In the forked child of a program with one thread.
[[noreturn]] void become(const Program& program, int directory, int output, int error,
                         int notices) {
  const pid_t parent = ::getppid();
  const std::vector<char*> arguments = pointers(program.arguments);
  const std::vector<char*> variables = pointers(program.variables);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the call above
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Descriptor 0 is /dev/null since the supervisor started.
  // The others may be where the pipe for notices goes.
  error = ::fcntl(error, F_DUPFD_CLOEXEC, kNoticeFd + 1);
  if (::dup2(output, 1) == 1 && ::dup2(output, 2) == 2 && ::fchdir(directory) == 0 &&
      (notices < 0 || give_notice_pipe(notices))) {
    ::execve(arguments[0], arguments.data(), variables.data());
  }
  const int failure = errno;
  [[maybe_unused]] const ssize_t put = ::write(error, &failure, sizeof failure);
  ::_exit(127);
}

}  // namespace

Result<Child> start_child(const Program& program, int directory) {
  int output[2];
  int error[2];
  Child child;
  if (::pipe2(output, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
  child.output = UniqueFd(output[0]);
  const UniqueFd output_end(output[1]);
  if (::pipe2(error, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
  UniqueFd notices_end;
  if (program.sends_notices) {
    int notices[2];
    if (::pipe2(notices, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
    child.notices = UniqueFd(notices[0]);
    notices_end = UniqueFd(notices[1]);
    ::fcntl(child.notices.get(), F_SETFL, O_NONBLOCK);
  }
  const UniqueFd error_read(error[0]);
  UniqueFd error_write(error[1]);
  ::fcntl(child.output.get(), F_SETFL, O_NONBLOCK);

  child.pid = ::fork();
  if (child.pid < 0) return system_error(Errc::kResource, "fork");
  if (child.pid == 0) {
    become(program, directory, output_end.get(), error_write.get(),
           notices_end ? notices_end.get() : -1);
  }
  ::setpgid(child.pid,
            child.pid);  // in parent and child, so that it holds from either's next line on
  error_write.reset();
  int failure = 0;
  const ssize_t got = ::read(error_read.get(), &failure, sizeof failure);
  if (got == 0) return child;
  ::waitpid(child.pid, nullptr, 0);
  errno = got > 0 ? failure : EIO;
  return system_error(Errc::kFailed, "cannot execute " + program.name);
}

}  // namespace paddle::agent
