#include "remote/agent/process/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "remote/agent/process/claims.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

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
constexpr int kShellSignalBase = 128;  // added to a signal, the exit code of some programs

TimePoint now() {
  return std::chrono::steady_clock::now();
}

// A program of the user's own finds the folder for its results on every node, not only where
// another trainer, or an earlier run, has made it.
Status make_save_folder(const Root& root, const wire::agent::ProcessSpec& spec) {
  constexpr std::string_view kBelowRoot = "{root}/";
  const auto variable = spec.environment().find("PADDLE_INIT_SAVE_DIR");
  if (variable == spec.environment().end() || !variable->second.starts_with(kBelowRoot)) return {};
  PADDLE_TRY(const SafePath folder, SafePath::parse(variable->second.substr(kBelowRoot.size())));
  return folder.make_directories(root.fd.get());
}

}  // namespace

Status Supervisor::watch_signals() {
  ::sigemptyset(&signals_);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals_, signal);
  ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  signal_fd_ = UniqueFd(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_) return system_error(Errc::kResource, "signalfd");
  return {};
}

Status Supervisor::start(const Environment& environment) {
  PADDLE_TRY_STATUS(watch_signals());
  return spawn(environment);
}

Status Supervisor::succeed(const Record& before, TimePoint guarded_from) {
  PADDLE_TRY_STATUS(watch_signals());
  wait_status_ = SIGKILL;
  started_at_ = time_of_steady(before.pid.started_steady_ms());
  const auto restarts = before.restarts.value_or(wire::agent::Restarts());
  const auto* const last = restarts.restarts_size() > 0 ? &*restarts.restarts().rbegin() : nullptr;
  is_end_counted_ = last != nullptr && last->life() == before.pid.life();
  if (is_end_counted_) wait_status_ = last->signal() != 0 ? last->signal() : last->exit_code() << 8;
  say(is_end_counted_ ? "its supervisor was killed before it was started again"
                      : "killed together with its supervisor");
  for (const wire::agent::Restart& restart : restarts.restarts()) {
    const TimePoint ended = time_of_steady(restart.ended_steady_ms());
    if (restart.failures() > 0 && restart.boot_id() == boot_id() && ended >= guarded_from)
      restarts_.recall(ended);
  }
  // It may hold its port for a moment, and its children for longer.
  std::size_t ended = 0;
  end_processes([&] { return members_of(root_, {before}); }, kLeftoverGrace, ended);
  return {};
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

  if (spec_.program().empty()) PADDLE_TRY_STATUS(make_save_folder(root_, spec_));

  ++life_;
  PADDLE_TRY_STATUS(write_life(root_, folder_, life_));
  if (life_ > 1) say("start " + std::to_string(life_));  // parts the lives for `logs --previous`
  forget_notice(root_, folder_);
  started_at_ = now();
  Program program = program_of(spec_, root_, life_, environment);
  give_memory(program, memory_);
  note_gpus(root_, folder_, program.gpus);
  is_told_to_save_ = stop_wish(root_, folder_) == StopWish::kAsked;
  if (is_told_to_save_) program.variables.emplace_back("PADDLECTL_STOP_ASKED=1");
  PADDLE_TRY(Child child, start_child(program, directory.get()));
  child_ = child.pid;
  output_ = std::move(child.output);
  notices_.open(std::move(child.notices));
  watch_.restart(started_at_);
  oom_ = OomWatch();
  oom_.look(child_, started_at_);
  hang_.clear();
  const UniqueFd lock = lock_stop_wishes(root_, spec_.job());
  if (auto written = write_pid(root_, folder_, child_, life_, guard_); !written) {
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    return written;
  }
  // An agent that asked meanwhile knew the pid of the life before.
  if (!is_told_to_save_ && stop_wish(root_, folder_) == StopWish::kAsked) ::kill(child_, SIGTERM);
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
    poll_until(std::min(kill_at, now() + kWatchPeriod));
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
    if (ended) continue;
    kill_if_it_hangs();
    mend_records();
    oom_.look(child_, now());
  }
  if (output_) drain();
  notices_.take(root_, folder_, watch_);
  note_end();
}

void Supervisor::note_end() {
  const bool is_killed = WIFSIGNALED(wait_status_) && WTERMSIG(wait_status_) == SIGKILL;
  const bool is_ours = !hang_.empty();
  const bool is_oom = is_killed && !is_ours && oom_.has_counted(now());
  out_of_memory_bytes_ = is_oom ? exit_record(wait_status_, used_).resident_peak_bytes() : 0;
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

void Supervisor::mend_records() {
  if (has_record(root_, folder_, "pid") && has_record(root_, folder_, "spec")) return;
  // The folder of all jobs is there: a teardown ends this process first.
  if (!folder_.make_directories(root_.fd.get())) return;
  if (write_record(root_, folder_, "spec", spec_) && write_life(root_, folder_, life_) &&
      write_pid(root_, folder_, child_, life_, guard_)) {
    say("its records were removed, and are written anew");
    reserve_records(root_, folder_);
  }
}

void Supervisor::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    is_told_to_end_ = is_told_to_end_ || info.ssi_signo != SIGCHLD;
  }
}

std::string Supervisor::end_of_life() const {
  if (out_of_memory_bytes_ > 0) return "killed by the kernel: out of memory";
  if (WIFSIGNALED(wait_status_)) {
    return "killed by signal " + std::to_string(WTERMSIG(wait_status_));
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status_));
}

bool Supervisor::starts_again() {
  if (wish() == StopWish::kOrdered || (wish() == StopWish::kAsked && !has_to_save())) return false;
  const int end = wish() == StopWish::kAsked && is_interrupted() ? SIGTERM : wait_status_;
  const bool is_ordered = WIFSIGNALED(wait_status_) && is_restart_ordered(root_, folder_, life_);
  const auto pause = is_ordered
                         ? std::optional(Duration::zero())
                         : restarts_.next({end, started_at_, now(), notices_.has_progressed(),
                                           notices_.progressed_at()});
  if (!pause) return false;
  say((is_ordered ? "ended by paddlectl restart" : end_of_life()) + "; it is started again");
  wire::agent::Restart why;
  why.set_life(life_);
  why.set_failures(is_ordered ? 0 : restarts_.failures());
  why.set_ordered(is_ordered);
  why.set_hang(hang_);
  why.set_out_of_memory_bytes(out_of_memory_bytes_);
  (void)add_restart(root_, folder_, wait_status_, std::move(why));  // the log tells it too
  const TimePoint until = now() + *pause;
  while (wish() == StopWish::kNone && now() < until) {
    pollfd signals{signal_fd_.get(), POLLIN, 0};
    ::poll(&signals, 1, milliseconds_until(until));
    take_signals();
  }
  return wish() != StopWish::kOrdered;
}

// By SIGTERM, or as a trainer ends after it that has not joined the job.
bool Supervisor::is_interrupted() const {
  return WIFSIGNALED(wait_status_)
             ? WTERMSIG(wait_status_) == SIGTERM
             : WEXITSTATUS(wait_status_) == static_cast<int>(Errc::kInterrupted);
}

// The job cannot be saved without a trainer that failed just before a stop, or at it.
bool Supervisor::has_to_save() const {
  const bool has_begun = life_ > 1 || notices_.has_progressed().value_or(false);
  return !spec_.program().empty() && !is_told_to_save_ && (has_begun || !is_interrupted());
}

// A process that was asked to save, and failed at it, is no process that was stopped.
bool Supervisor::ends_as_wished() const {
  const StopWish wish = stop_wish(root_, folder_);
  if (wish != StopWish::kAsked) return wish == StopWish::kOrdered;
  if (WIFSIGNALED(wait_status_)) return WTERMSIG(wait_status_) == SIGTERM;
  const int code = WEXITSTATUS(wait_status_);
  return code == 0 || code == static_cast<int>(Errc::kResumable) ||
         code == static_cast<int>(Errc::kInterrupted) || code == kShellSignalBase + SIGTERM;
}

void Supervisor::run(const Environment& environment) {
  for (;;) {
    if (child_ > 0) wait_for_end();
    // The pause of the end that is counted was with the supervisor before, or its guard.
    if (std::exchange(is_end_counted_, false) ? wish() == StopWish::kOrdered : !starts_again())
      break;
    end_leftovers();
    if (const Status again = spawn(environment); !again) {
      say("it cannot be started again: " + again.error().message);
      break;
    }
  }
  wire::agent::ExitRecord record = exit_record(wait_status_, used_);
  record.set_stopped(ends_as_wished());
  record.set_hang(hang_);
  record.set_out_of_memory_bytes(out_of_memory_bytes_);
  const auto written = write_record(root_, folder_, "exit", record);
  if (!written) say("exit record: " + written.error().message);
  end_leftovers();
  wipe_unneeded_keys(root_, spec_.job());
}

// The descendants, which are ours (subreaper): of whatever process group, since the process may run
// programs in groups of their own, and of whatever session, by the mark in their environment.
std::vector<ProcStat> Supervisor::leftovers() const {
  const pid_t session = ::getsid(0);
  const std::string mark = process_mark(root_, spec_.job(), spec_.name());
  std::vector<ProcStat> found = own_processes();
  std::erase_if(found, [&](const ProcStat& process) {
    return process.pid == guard_.pid ||
           (process.session != session && environment_of(process.pid, kProcessVariable) != mark);
  });
  return found;
}

// Keeps their last output.
void Supervisor::end_leftovers() {
  std::vector<ProcStat> left = leftovers();
  for (const ProcStat& process : left) send_signal(process, SIGTERM);
  const TimePoint kill_at = now() + kLeftoverGrace;
  while (!left.empty() && now() < kill_at) {
    pollfd polls[] = {{signal_fd_.get(), POLLIN, 0}, {output_ ? output_.get() : -1, POLLIN, 0}};
    ::poll(polls, 2, milliseconds_until(kill_at));
    if (polls[1].revents != 0) drain();
    take_signals();
    reap();
    left = leftovers();
  }
  for (const ProcStat& process : left) send_signal(process, SIGKILL);
  if (output_) drain();
}

}  // namespace paddle::agent
