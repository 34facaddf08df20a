#include "remote/agent/process/notifier.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/secret.h"
#include "remote/agent/node/log_file.h"
#include "remote/agent/node/proc.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

constexpr Duration kCommandTimeMax = std::chrono::minutes(5);
constexpr Duration kKillCommandAgain = std::chrono::seconds(1);
constexpr std::size_t kCommandOutputMax = 16U << 10U;  // of one command
constexpr std::size_t kCommandReadBytes = 4U << 10U;
constexpr int kLooksMax = 100;  // for what a command leaves

TimePoint clock_now() {
  return std::chrono::steady_clock::now();
}

// The specification of the command as that of another program of the process. Its own name gives
// its processes a mark of their own.
wire::agent::ProcessSpec spec_of_command(const wire::agent::ProcessSpec& spec) {
  wire::agent::ProcessSpec command = spec;
  command.set_name(notify_name(spec.name(), ::getpid()));
  command.clear_program();
  command.mutable_arguments()->Assign(spec.notify().arguments().begin(),
                                      spec.notify().arguments().end());
  return command;
}

// Whether the variable leads to a key of the job, or to a descriptor that the command does not get.
bool is_for_process_only(std::string_view variable) {
  return variable.starts_with("PADDLE_INIT_KEY_FILE=") ||
         variable.starts_with("PADDLECTL_NOTICE_FD=") ||
         variable.starts_with("PADDLECTL_MEMORY_FD=");
}

// Turns the forked child of a single-threaded program into the command. `name`: for its error.
[[noreturn]] void become_command(const char* name, char* const* arguments, char* const* variables,
                                 int directory, int input, int output) {
  const pid_t parent = ::getppid();
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the call above
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::fchdir(directory) == 0 && ::dup2(input, 0) == 0 && ::dup2(output, 1) == 1 &&
      ::dup2(output, 2) == 2) {
    ::close_range(3, ~0U, 0);
    restore_cores();
    ::execve(arguments[0], arguments, variables);
  }
  const char* const reason = ::strerror(errno);
  for (const char* part : {"cannot execute ", name, ": ", reason, "\n"}) {
    [[maybe_unused]] const ssize_t put = ::write(2, part, std::strlen(part));
  }
  ::_exit(127);
}

// A file without a name that has the text. A pipe may hold less than a notice.
UniqueFd file_with(const std::string& text) {
  UniqueFd file(::memfd_create("notice", MFD_CLOEXEC));
  if (!file || !write_all(file.get(), as_bytes(text), TimePoint::max()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    return {};
  return file;
}

// Kills what an ended command has left in its session or, by its mark, in another one: until a look
// finds nothing new, because a process that is not yet killed may start others.
void kill_rest(pid_t session, const std::string& mark) {
  std::set<std::pair<pid_t, std::uint64_t>> killed;
  for (int looks = 0; looks < kLooksMax; ++looks) {
    bool has_new = false;
    for (const ProcStat& process : own_processes()) {
      if (process.session != session && environment_of(process.pid, kProcessVariable) != mark)
        continue;
      has_new = killed.emplace(process.pid, process.start_ticks).second || has_new;
      send_signal(process, SIGKILL);
    }
    if (!has_new) return;
  }
}

}  // namespace

Notifier::Notifier(const wire::agent::NotifyCommand& command)
    : timeout_(std::min<Duration>(
          std::chrono::milliseconds(std::min<std::uint64_t>(command.timeout_ms(), 1'000'000)),
          kCommandTimeMax)) {
  if (command.arguments().empty() || command.arguments(0).empty()) return;
  events_.assign(command.events().begin(), command.events().end());
}

bool Notifier::wants(NotifyEvent event) const {
  return std::ranges::find(events_, name_of(event)) != events_.end();
}

void Notifier::add(NotifyEvent event, JsonObject fields) {
  if (wants(event)) queue_.add(clock_now(), event, std::move(fields));
}

void Notifier::step(const Root& root, const wire::agent::ProcessSpec& spec,
                    const Environment& environment) {
  if (pid_ > 0) {
    read_output();
    if (has_ended_) finish(root, spec);
  }
  if (pid_ > 0 && clock_now() >= kill_at_) {
    is_timed_out_ = true;
    ::kill(-pid_, SIGKILL);
    kill_at_ = clock_now() + kKillCommandAgain;
  }
  if (pid_ > 0) return;
  if (const auto due = queue_.take(clock_now())) start(root, spec, environment, *due);
}

void Notifier::start(const Root& root, const wire::agent::ProcessSpec& spec,
                     const Environment& environment, const NotifyQueue::Due& due) {
  what_ = spec.name() + ": " + std::string(name_of(due.event));
  text_.clear();
  const auto path = SafePath::parse(spec.directory());
  auto directory = path ? path->open_directory(root.fd.get()) : Result<UniqueFd>(path.error());
  const UniqueFd input = file_with(due.text + "\n");
  auto output = make_pipe();
  if (!directory || !input || !output) return log(root, spec, "it could not be started");
  ::fcntl(output->read.get(), F_SETFL, O_NONBLOCK);
  Program program = program_of(spec_of_command(spec), root, 1, environment);
  std::erase_if(program.variables, is_for_process_only);
  const std::vector<char*> arguments = pointers(program.arguments);
  const std::vector<char*> variables = pointers(program.variables);
  pid_ = ::fork();
  if (pid_ == 0) {
    become_command(spec.notify().arguments(0).c_str(), arguments.data(), variables.data(),
                   directory->get(), input.get(), output->write.get());
  }
  if (pid_ < 0) return log(root, spec, "it could not be started");
  output_ = std::move(output->read);
  has_ended_ = is_timed_out_ = false;
  kill_at_ = clock_now() + timeout_;
}

// A command that writes more gets SIGPIPE: reading without end would cost a core.
void Notifier::read_output() {
  char buffer[kCommandReadBytes];
  while (output_) {
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) output_.reset();
    if (got <= 0) return;
    text_.append(buffer, static_cast<std::size_t>(got));
    if (text_.size() >= kCommandOutputMax) output_.reset();
  }
}

bool Notifier::on_reaped(pid_t pid, int wait_status) {
  if (pid != pid_ || has_ended_) return false;
  has_ended_ = true;
  wait_status_ = wait_status;
  return true;
}

void Notifier::finish(const Root& root, const wire::agent::ProcessSpec& spec) {
  kill_rest(pid_, process_mark(root, spec.job(), notify_name(spec.name(), ::getpid())));
  output_.reset();
  pid_ = -1;
  std::string end = "done";
  if (is_timed_out_) {
    end = fmt::format("killed after {} s",
                      std::chrono::duration_cast<std::chrono::seconds>(timeout_).count());
  } else if (WIFSIGNALED(wait_status_)) {
    end = fmt::format("killed by signal {}", WTERMSIG(wait_status_));
  } else if (WEXITSTATUS(wait_status_) != 0) {
    end = fmt::format("exited with code {}", WEXITSTATUS(wait_status_));
  }
  if (!text_.empty() && !text_.ends_with('\n')) text_ += '\n';
  log(root, spec, end);
}

void Notifier::log(const Root& root, const wire::agent::ProcessSpec& spec,
                   const std::string& end) const {
  const std::string folder = spec.log().substr(0, spec.log().rfind('/') + 1);
  // The folder of an ended job that was removed must not come back.
  if (!has_record(root, *process_folder(spec.job(), spec.name()), "spec")) return;
  if (auto file = LogWriter::open(root, folder + "notify.log", kNotifyLogBytes / 2))
    file->append(as_bytes(fmt::format("paddlectl: {}\n{}paddlectl: {}\n", what_, text_, end)),
                 unix_ms());
}

void Notifier::end() {
  queue_.clear();
  if (pid_ > 0 && !has_ended_) ::kill(-pid_, SIGKILL);
}

TimePoint Notifier::next_at() const {
  if (has_ended_ && pid_ > 0) return {};  // long ago
  return pid_ > 0 ? kill_at_ : queue_.due_at();
}

}  // namespace paddle::agent
