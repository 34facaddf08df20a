#include "remote/agent/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "remote/agent/log/log_file.h"
#include "remote/agent/process/child.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/process/record.h"
#include "remote/agent/process/restart_policy.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kSpecBytesMax = 64U << 10U;
constexpr std::size_t kOutputReadBytes = 64U << 10U;
// More than a pipe holds; bounds the time spent on a process that writes for ever.
constexpr int kDrainReadsMax = 16;
// After a SIGTERM to the supervisor itself; stop() has its own grace.
constexpr Duration kTermGrace = std::chrono::seconds(30);
// A process that hangs in the kernel dies once its device answers.
constexpr Duration kKillAgain = std::chrono::seconds(1);
constexpr Duration kWatchPeriod = std::chrono::seconds(1);
// Between two looks; far longer than kWatchPeriod on a busy machine.
constexpr Duration kOwnGap = std::chrono::seconds(5);
// For leftovers in the process group, between SIGTERM and SIGKILL.
constexpr Duration kLeftoverGrace = std::chrono::seconds(2);
constexpr Duration kTakeOverDeadline = kLeftoverGrace + std::chrono::seconds(5);
constexpr int kTakeOverPollMs = 10;
// Another supervisor that ends has the job's lock for a moment.
constexpr Duration kWipeWait = std::chrono::seconds(1);

TimePoint now() {
  return std::chrono::steady_clock::now();
}

class Supervisor {
 public:
  Supervisor(Root root, wire::agent::ProcessSpec spec, SafePath folder, UniqueFd lock,
             LogWriter log, std::uint32_t lives)
      : root_(std::move(root)),
        spec_(std::move(spec)),
        folder_(std::move(folder)),
        lock_(std::move(lock)),
        log_(std::move(log)),
        life_(lives),
        restarts_(spec_),
        // A program of the user's own sends no pulse.
        watch_(std::chrono::milliseconds(spec_.program().empty() ? 0 : spec_.hang_ms())) {}

  Status start(const Environment& environment);
  void run(const Environment& environment);

 private:
  // Starts the process once.
  Status spawn(const Environment& environment);
  void wait_for_end();
  void poll_until(TimePoint until);
  void kill_if_it_hangs();
  // True after the pause before another start; a stop request cuts the pause short.
  bool starts_again();
  void say(const std::string& text) {
    log_.append(as_bytes("paddlectl: " + text + "\n"), unix_ms());
  }
  bool reap();  // true once the process itself has ended
  void take_signals();
  void drain();
  void end_leftovers();

  Root root_;
  wire::agent::ProcessSpec spec_;
  SafePath folder_;
  UniqueFd lock_;  // held until we exit: one supervisor per name
  LogWriter log_;
  sigset_t signals_{};
  UniqueFd signal_fd_;
  UniqueFd memory_;  // of all lives of the process
  UniqueFd output_;
  Notices notices_;
  pid_t child_ = -1;
  int wait_status_ = 0;
  rusage used_{};
  bool is_told_to_end_ = false;
  std::uint32_t life_ = 0;
  TimePoint started_at_;
  RestartPolicy restarts_;
  PulseWatch watch_;
  TimePoint looked_at_;
  std::string hang_;  // why this life was killed, or ""
};

Status Supervisor::start(const Environment& environment) {
  ::sigemptyset(&signals_);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals_, signal);
  ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  signal_fd_ = UniqueFd(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_) return system_error(Errc::kResource, "signalfd");
  PADDLE_TRY(memory_, memory_of(spec_));
  return spawn(environment);
}

Status Supervisor::spawn(const Environment& environment) {
  if (!spec_.program().empty()) {
    PADDLE_TRY(const SafePath program, SafePath::parse(spec_.program()));
    const auto fd = program.open_read(root_.fd.get());
    if (!fd) return fd.error();
  } else if (spec_.arguments().empty() || spec_.arguments(0).empty()) {
    return Error{Errc::kData, "a process without a program", ""};
  }
  PADDLE_TRY(const SafePath directory_path, SafePath::parse(spec_.directory()));
  PADDLE_TRY_STATUS(directory_path.make_directories(root_.fd.get()));
  PADDLE_TRY(const UniqueFd directory, directory_path.open_directory(root_.fd.get()));

  ++life_;
  PADDLE_TRY_STATUS(write_life(root_, folder_, life_));
  if (life_ > 1) say("start " + std::to_string(life_));  // parts the lives for `logs --previous`
  remove_record(root_, folder_, "notice");
  started_at_ = now();
  Program program = program_of(spec_, root_, life_, environment);
  give_memory(program, memory_);
  PADDLE_TRY(Child child, start_child(program, directory.get()));
  child_ = child.pid;
  output_ = std::move(child.output);
  notices_.open(std::move(child.notices));
  watch_.restart(started_at_);
  hang_.clear();
  if (auto written = write_pid(root_, folder_, child_, life_); !written) {
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    return written;
  }
  reserve_records(root_, folder_);
  return {};
}

bool Supervisor::reap() {
  bool ended = false;
  for (;;) {
    int status = 0;
    rusage used{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &used);
    if (pid <= 0) return ended;
    if (pid == child_) {
      wait_status_ = status;
      used_ = used;
      ended = true;
    }
  }
}

void Supervisor::drain() {
  Bytes buffer(kOutputReadBytes);
  for (int reads = 0; reads < kDrainReadsMax; ++reads) {
    const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) output_.reset();  // every writer has gone
    if (got <= 0) return;
    log_.append(ByteSpan(buffer).first(static_cast<std::size_t>(got)), unix_ms());
    if (static_cast<std::size_t>(got) < buffer.size()) return;
  }
}

void Supervisor::wait_for_end() {
  TimePoint kill_at = TimePoint::max();
  for (bool ended = false; !ended;) {
    poll_until(watch_.is_on() ? std::min(kill_at, now() + kWatchPeriod) : kill_at);
    signalfd_siginfo info{};
    while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) {
        ended = reap() || ended;
      } else if (!ended) {
        is_told_to_end_ = true;
        ::kill(-child_, SIGTERM);
        kill_at = std::min(kill_at, now() + kTermGrace);
      }
    }
    if (!ended && now() >= kill_at) {
      ::kill(-child_, SIGKILL);
      kill_at = now() + kKillAgain;
    }
    if (!ended) kill_if_it_hangs();
  }
  if (output_) drain();
  notices_.take(root_, folder_, watch_);
}

void Supervisor::poll_until(TimePoint until) {
  pollfd polls[] = {{signal_fd_.get(), POLLIN, 0},
                    {output_ ? output_.get() : -1, POLLIN, 0},
                    {notices_.fd(), POLLIN, 0}};
  ::poll(polls, 3, until == TimePoint::max() ? -1 : milliseconds_until(until));
  if (polls[1].revents != 0) drain();
  if (polls[2].revents != 0) notices_.take(root_, folder_, watch_);
}

void Supervisor::kill_if_it_hangs() {
  const TimePoint at = now();
  // This process was stopped itself, or a disk kept it waiting: pulses may not have been read.
  if (at - looked_at_ > kOwnGap) watch_.forgive(at);
  looked_at_ = at;
  const auto hang = watch_.hangs(at);
  if (!hang || notices_.fd() < 0) return;
  if (hang_.empty()) say("it hangs, " + *hang + ", and is killed");
  hang_ = *hang;
  ::kill(-child_, SIGKILL);
}

void Supervisor::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    is_told_to_end_ = is_told_to_end_ || info.ssi_signo != SIGCHLD;
  }
}

bool Supervisor::starts_again() {
  const auto is_stopped = [&] { return is_told_to_end_ || has_record(root_, folder_, "stop"); };
  if (is_stopped()) return false;
  const auto pause = restarts_.next({wait_status_, started_at_, now(), notices_.has_progressed()});
  if (!pause) return false;
  say(WIFSIGNALED(wait_status_)
          ? "killed by signal " + std::to_string(WTERMSIG(wait_status_)) + "; it is started again"
          : "exited with code " + std::to_string(WEXITSTATUS(wait_status_)) +
                "; it is started again");
  (void)add_restart(root_, folder_, wait_status_, restarts_.failures(),
                    hang_);  // the log tells it too
  const TimePoint until = now() + *pause;
  while (!is_stopped() && now() < until) {
    pollfd signals{signal_fd_.get(), POLLIN, 0};
    ::poll(&signals, 1, milliseconds_until(until));
    take_signals();
  }
  return !is_stopped();
}

void Supervisor::run(const Environment& environment) {
  for (;;) {
    wait_for_end();
    if (!starts_again()) break;
    end_leftovers();
    if (const Status again = spawn(environment); !again) {
      say("it cannot be started again: " + again.error().message);
      break;
    }
  }
  wire::agent::ExitRecord record = exit_record(wait_status_, used_);
  record.set_stopped(has_record(root_, folder_, "stop"));
  record.set_hang(hang_);
  const auto written = write_record(root_, folder_, "exit", record);
  if (!written) say("exit record: " + written.error().message);
  end_leftovers();
  wipe_unneeded_keys(root_, spec_.job(), kWipeWait);
}

// Ends the descendants, which are ours (subreaper), and keeps their last output.
void Supervisor::end_leftovers() {
  if (::kill(-child_, SIGTERM) != 0) return;
  const TimePoint kill_at = now() + kLeftoverGrace;
  while (::kill(-child_, 0) == 0 && now() < kill_at) {
    pollfd polls[] = {{signal_fd_.get(), POLLIN, 0}, {output_ ? output_.get() : -1, POLLIN, 0}};
    ::poll(polls, 2, milliseconds_until(kill_at));
    if (polls[1].revents != 0) drain();
    take_signals();
    reap();
  }
  ::kill(-child_, SIGKILL);
  if (output_) drain();
}

// Waits for the lock while the supervisor of an ended process is still ending its leftovers.
bool take_over(int lock, const Root& root, const SafePath& folder) {
  const TimePoint give_up = now() + kTakeOverDeadline;
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (!has_record(root, folder, "exit") || now() >= give_up) return false;
    ::poll(nullptr, 0, kTakeOverPollMs);
  }
  return true;
}

Result<Supervisor> make_supervisor(const std::string& root_path, int spec_fd) {
  PADDLE_TRY(Root root, open_root(root_path));
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(spec_fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kSpecBytesMax) break;
  }
  wire::agent::ProcessSpec spec;
  if (text.size() > kSpecBytesMax || !spec.ParseFromString(text)) {
    return Error{Errc::kData, "malformed process specification", ""};
  }
  PADDLE_TRY(SafePath folder, process_folder(spec.job(), spec.name()));
  PADDLE_TRY_STATUS(folder.make_directories(root.fd.get()));
  PADDLE_TRY(UniqueFd lock, folder.open_directory(root.fd.get()));
  if (!take_over(lock.get(), root, folder)) {
    return Error{Errc::kFailed, spec.job() + "/" + spec.name() + " is running already",
                 "stop it first"};
  }
  const std::uint32_t lives = lives_of(root, folder);
  for (const char* file : {"pid", "exit", "stop", "notice"}) remove_record(root, folder, file);
  PADDLE_TRY_STATUS(write_record(root, folder, "spec", spec));
  PADDLE_TRY(LogWriter log, LogWriter::open(root, spec.log()));
  return Supervisor(std::move(root), std::move(spec), std::move(folder), std::move(lock),
                    std::move(log), lives);
}

}  // namespace

int supervise(const std::string& root_path, int spec_fd, int status_fd,
              const Environment& environment) {
  ::signal(SIGCHLD, SIG_DFL);  // the agent ignores it; waitpid would find nothing
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  UniqueFd status(status_fd);
  auto supervisor = make_supervisor(root_path, spec_fd);
  ::close(spec_fd);
  const Status started = supervisor ? supervisor->start(environment) : Status(supervisor.error());
  if (!started) {
    wire::agent::ErrorReply reply;
    reply.set_code(static_cast<int>(started.error().code));
    reply.set_message(started.error().message);
    reply.set_hint(started.error().hint);
    [[maybe_unused]] const auto told =
        write_all(status.get(), as_bytes(kStartFailed + reply.SerializeAsString()),
                  now() + std::chrono::seconds(10));
    return 1;
  }
  [[maybe_unused]] const auto told =
      write_all(status.get(), as_bytes(std::string(1, kStarted)), now() + std::chrono::seconds(10));
  status.reset();
  supervisor->run(environment);
  return 0;
}

}  // namespace paddle::agent
