#include "remote/agent/process/supervisor.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/safe_path.h"
#include "base/text.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/log_file.h"
#include "remote/agent/node/oom_watch.h"
#include "remote/agent/node/proc.h"
#include "remote/agent/node/root.h"
#include "remote/agent/process/child.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/process/notifier.h"
#include "remote/agent/process/notify_events.h"
#include "remote/agent/process/pulse_watch.h"
#include "remote/agent/process/record.h"
#include "remote/agent/process/restart_policy.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kOutputReadBytes = 64U << 10U;
// Enough reads to empty a pipe; the limit matters for a process that writes without end.
constexpr int kDrainReadsMax = 16;
// The grace of a process whose supervisor receives SIGTERM; stop_processes() has its own grace.
constexpr Duration kTermGrace = std::chrono::seconds(30);
// Interval of repeated SIGKILLs: a process that hangs in the kernel dies only after its device
// answers.
constexpr Duration kKillAgain = std::chrono::seconds(1);
constexpr Duration kWatchPeriod = std::chrono::seconds(1);
// If two checks are further apart, this supervisor was suspended or blocked. The gap is far longer
// than kWatchPeriod, because a busy machine delays checks, too.
constexpr Duration kOwnGap = std::chrono::seconds(5);
// The time between SIGTERM and SIGKILL for the processes that an ended process leaves.
constexpr Duration kLeftoverGrace = std::chrono::seconds(2);
constexpr Duration kReapGrace = std::chrono::milliseconds(500);  // from the end of a leftover
// A SIGTERM within this time after the end of the process may have been meant for the process.
constexpr Duration kLateSignals = std::chrono::seconds(20);
constexpr int kKeepPeriodMs = 1000;
constexpr Duration kDiskPeriod = std::chrono::minutes(1);     // between two looks at the disk
constexpr Duration kDiskLowPeriod = std::chrono::hours(1);    // between two notices on a node
constexpr Duration kNotifierGrace = std::chrono::seconds(2);  // for the end of a killed command
// `by` of the stop request that SIGURG makes.
constexpr const char* kTimeLimit = "the time limit of its nodes";
constexpr int kShellSignalBase = 128;  // a program may exit with this plus the signal's number

TimePoint now() {
  return std::chrono::steady_clock::now();
}

// Creates the save folder of a user's own program on every node, also where no other trainer and no
// earlier run has created it.
Status make_save_folder(const Root& root, const wire::agent::ProcessSpec& spec) {
  constexpr std::string_view kBelowRoot = "{root}/";
  const auto variable = spec.environment().find("PADDLE_INIT_SAVE_DIR");
  if (variable == spec.environment().end() || !variable->second.starts_with(kBelowRoot)) return {};
  PADDLE_TRY(const SafePath folder, SafePath::parse(variable->second.substr(kBelowRoot.size())));
  return folder.make_directories(root.fd.get());
}

// The supervisor of one process: starts it, keeps its output and records, and starts it again after
// failures. It outlives the agent and paddlectl.
//
//   agent -> guard -> supervisor -> process      (without restarts there is no guard)
//
//   ended         then
//   agent         the other three go on
//   guard         the supervisor goes on, but is not replaced if it is killed later
//   supervisor    the kernel kills the process (PR_SET_PDEATHSIG); a guard starts another
//                 supervisor, which calls resume() and starts the process again
//   process       the supervisor starts it again, or writes its exit record and ends, and the
//                 guard ends with it
class Supervisor {
 public:
  // `lock` is on `folder` and is held until the end, so that there is one supervisor per name.
  Supervisor(Root root, wire::agent::ProcessSpec spec, SafePath folder, UniqueFd lock,
             LogWriter log, std::uint32_t incarnation)
      : root_(std::move(root)),
        spec_(std::move(spec)),
        folder_(std::move(folder)),
        lock_(std::move(lock)),
        log_(std::move(log)),
        incarnation_(incarnation),
        restarts_(spec_),
        notifier_(spec_.notify()),
        // A program of the user's own sends no pulse.
        watch_(std::chrono::milliseconds(spec_.program().empty() ? 0 : spec_.hang_ms())),
        stall_(watches_stalls() ? std::chrono::milliseconds(spec_.notify().stalled_ms())
                                : Duration::zero()) {}

  // `guard`: starts another supervisor when this one is killed.
  void set_guard(const ProcStat& guard) { guard_ = guard; }
  // `memory`: the file of memory_of(), shared by all runs of the process under any of its
  // supervisors; -1: none.
  void set_memory(int memory) { memory_ = memory; }
  // Returns once the process has ended for good. REQUIRES: start() or resume() has succeeded.
  void run(const Environment& environment);
  Status start(const Environment& environment);
  // Call in place of start() after the previous supervisor was killed together with its process.
  // Failures that were counted since `guarded_from` still count.
  Status resume(const Record& before, TimePoint guarded_from);

 private:
  Status watch_signals();
  // Starts the process once.
  Status spawn(const Environment& environment);

  // While the process runs.
  void wait_for_end();
  void poll_until(TimePoint until);
  void drain();
  bool reap();  // true once the process itself has ended
  void kill_if_it_hangs();
  // Writes the records again if they were removed: without them the process could not be stopped.
  void restore_records();
  // Records whether the run ended for lack of memory. REQUIRES: the process was waited for.
  void note_out_of_memory();

  // Decides whether the process is started again, and waits for the pause before that; a stop
  // request shortens the pause.
  bool starts_again();
  // The pause before the next start; nothing: the process is not started again.
  std::optional<Duration> pause_before_restart(StopMode stop, bool is_ordered);
  bool is_interrupted() const;       // whether SIGTERM ended the last run
  bool has_to_save() const;          // whether it must start once more to save before a stop
  bool ends_as_requested() const;    // whether its end is the one that a stop request asks for
  std::string describe_end() const;  // for the log
  StopMode stop_mode() const {
    return is_end_requested_ ? StopMode::kNow : requested_stop(root_, folder_);
  }
  void log_line(const std::string& text) {
    log_.append(as_bytes("paddlectl: " + text + "\n"), unix_ms());
  }

  // Notices (notify_events.h).
  bool watches_stalls() const {
    return !spec_.program().empty() && spec_.notify().speaks_for_job() &&
           notifier_.wants(NotifyEvent::kStalled);
  }
  void receive_notices();  // from the process
  void step_notifier() { notifier_.step(root_, spec_, *environment_); }
  void look_for_events();  // while the process runs
  void notify_best();
  void look_at_disk();
  RunEnd run_end() const;
  void notify(NotifyEvent event, const std::string& text, const std::string& cause = "");
  void notify_restart();
  void notify_end();
  bool are_notices_over() const;
  // Runs the commands that are left. Other supervisors of the process may start before that.
  void finish_notices();

  // After a run.
  void read_signals();
  // The machine is taken back soon (SIGURG, which ends no process that does not know it). Requests
  // a stop with a snapshot, and returns true if there was no request before. A pserver is not
  // stopped: it ends when its trainers have left.
  bool request_save();
  std::vector<ProcStat> leftovers() const;
  void end_leftovers();
  void keep_end();

  // State that lasts as long as the supervised process, over all of its restarts.
  Root root_;
  wire::agent::ProcessSpec spec_;
  SafePath folder_;
  UniqueFd lock_;  // held until this supervisor ends
  LogWriter log_;
  ProcStat guard_;
  sigset_t signals_{};
  UniqueFd signal_fd_;
  int memory_ = -1;
  std::uint32_t incarnation_ = 0;
  RestartPolicy restarts_;
  bool is_end_requested_ = false;
  TimePoint looked_at_;
  const Environment* environment_ = nullptr;  // set by run()
  Notifier notifier_;
  OutputTail tail_;
  std::optional<wire::Best> best_;  // the latest that was reported
  TimePoint disk_at_;               // when to look at the disk again
  std::optional<TimePoint> disk_low_at_;

  // State of the current run. Between two runs it is that of the last one.
  pid_t child_ = -1;  // none yet
  TimePoint started_at_;
  UniqueFd output_;
  Notices notices_;
  PulseWatch watch_;
  StallWatch stall_;
  std::vector<std::string> silent_peers_;  // as in RunEnd
  OomWatch oom_;
  bool is_save_requested_ = false;  // the run was asked to save when it started
  std::string hang_;                // why the run was killed, or ""
  int wait_status_ = 0;
  rusage used_{};
  std::uint64_t out_of_memory_bytes_ = 0;  // as in an ExitRecord
  bool is_end_counted_ = false;            // the killed supervisor has counted this run's end
};

// 1. Wait until the process ends.
// 2. Decide: start it again, after a pause, or end.
// 3. Before another start, end the processes that the run has left, which may still have its ports
//    open.
// 4. Start the process, and go on at 1.
// 5. At the end: write the exit record, end the leftovers, wipe the keys that no process of the job
//    needs now, and stay until the disk has the exit record and the last notice is sent.
void Supervisor::run(const Environment& environment) {
  environment_ = &environment;
  for (;;) {
    if (child_ > 0) wait_for_end();  // after resume() there is no process yet
    // An end that is counted already has had its pause, in the previous supervisor or its guard.
    const bool has_paused = std::exchange(is_end_counted_, false);
    const bool goes_on = has_paused ? stop_mode() != StopMode::kNow : starts_again();
    if (!goes_on) break;
    end_leftovers();
    if (const Status again = spawn(environment); !again) {
      log_line("it cannot be started again: " + again.error().message);
      break;
    }
  }
  notify_end();
  wire::agent::ExitRecord record = exit_record(wait_status_, used_);
  record.set_stopped(ends_as_requested());
  record.set_hang(hang_);
  record.set_out_of_memory_bytes(out_of_memory_bytes_);
  const auto written = write_record(root_, folder_, "exit", record);
  if (!written) log_line("cannot write the exit record: " + written.error().message);
  // A stop of the rest of the job may have sent them, because it found no exit record.
  read_signals();
  is_end_requested_ = false;
  reap();
  end_leftovers();
  wipe_unneeded_keys(root_, spec_.job());
  keep_end();
  finish_notices();
}

// The start of a process.

Status Supervisor::start(const Environment& environment) {
  PADDLE_TRY_STATUS(watch_signals());
  return spawn(environment);
}

Status Supervisor::resume(const Record& before, TimePoint guarded_from) {
  PADDLE_TRY_STATUS(watch_signals());
  wait_status_ = SIGKILL;
  started_at_ = time_of_steady(before.pid.started_steady_ms());
  const auto restarts = before.restarts.value_or(wire::agent::Restarts());
  const auto* const last = restarts.restarts_size() > 0 ? &*restarts.restarts().rbegin() : nullptr;
  is_end_counted_ = last != nullptr && last->incarnation() == before.pid.incarnation();
  if (is_end_counted_) wait_status_ = last->signal() != 0 ? last->signal() : last->exit_code() << 8;
  log_line(is_end_counted_ ? "its supervisor was killed before the restart"
                           : "killed together with its supervisor");
  for (const wire::agent::Restart& restart : restarts.restarts()) {
    const TimePoint ended = time_of_steady(restart.ended_steady_ms());
    if (restart.failures() > 0 && restart.boot_id() == boot_id() && ended >= guarded_from)
      restarts_.add_failure(ended);
  }
  // The process may still have its port open for a short time, and its children for longer.
  std::size_t ended = 0;
  end_processes([&] { return members_of(root_, {before}); }, kLeftoverGrace, ended);
  return {};
}

Status Supervisor::watch_signals() {
  ::sigemptyset(&signals_);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGURG})
    ::sigaddset(&signals_, signal);
  ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  signal_fd_ = UniqueFd(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_) return system_error(Errc::kResource, "signalfd");
  return {};
}

Status Supervisor::spawn(const Environment& environment) {
  if (!spec_.program().empty()) {
    PADDLE_TRY(const SafePath program, SafePath::parse(spec_.program()));
    const auto fd = program.open_read(root_.fd.get());
    if (!fd) return fd.error();
  } else if (spec_.arguments().empty() || spec_.arguments(0).empty()) {
    return Error{Errc::kData, "the process has no program", ""};
  }
  PADDLE_TRY(const SafePath directory_path, SafePath::parse(spec_.directory()));
  PADDLE_TRY_STATUS(directory_path.make_directories(root_.fd.get()));
  PADDLE_TRY(const UniqueFd directory, directory_path.open_directory(root_.fd.get()));

  if (spec_.program().empty()) PADDLE_TRY_STATUS(make_save_folder(root_, spec_));

  ++incarnation_;
  PADDLE_TRY_STATUS(write_incarnation(root_, folder_, incarnation_));
  if (incarnation_ > 1)
    log_line("start " + std::to_string(incarnation_));  // separates the runs for `logs --previous`
  forget_notice(root_, folder_);
  started_at_ = now();
  Program program = program_of(spec_, root_, incarnation_, environment);
  give_memory(program, memory_);
  write_gpus(root_, folder_, program.gpus);
  is_save_requested_ = requested_stop(root_, folder_) == StopMode::kSave;
  if (is_save_requested_) program.variables.emplace_back("PADDLECTL_STOP_ASKED=1");
  PADDLE_TRY(Child child, start_child(program, directory.get()));
  child_ = child.pid;
  output_ = std::move(child.output);
  notices_.open(std::move(child.notices));
  watch_.restart(started_at_);
  stall_.restart(started_at_);
  silent_peers_.clear();
  oom_ = OomWatch();
  oom_.look(child_, started_at_);
  hang_.clear();
  const UniqueFd lock = lock_stop_requests(root_, spec_.job());
  if (auto written = write_pid(root_, folder_, child_, incarnation_, guard_); !written) {
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    return written;
  }
  // An agent that requested a stop before write_pid() has sent SIGTERM to the previous run's pid.
  if (!is_save_requested_ && requested_stop(root_, folder_) == StopMode::kSave)
    ::kill(child_, SIGTERM);
  reserve_records(root_, folder_);
  return {};
}

// While the process runs.

void Supervisor::wait_for_end() {
  TimePoint kill_at = TimePoint::max();
  for (bool ended = false; !ended;) {
    poll_until(std::min(kill_at, now() + kWatchPeriod));
    signalfd_siginfo info{};
    while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) {
        ended = reap() || ended;
      } else if (info.ssi_signo == SIGURG) {
        if (request_save() && !ended) ::kill(child_, SIGTERM);
      } else if (!ended) {
        is_end_requested_ = true;
        ::kill(-child_, SIGTERM);
        kill_at = std::min(kill_at, now() + kTermGrace);
      }
    }
    if (!ended && now() >= kill_at) {
      ::kill(-child_, SIGKILL);
      kill_at = now() + kKillAgain;
    }
    if (ended) continue;
    look_for_events();
    kill_if_it_hangs();
    restore_records();
    oom_.look(child_, now());
  }
  if (output_) drain();
  receive_notices();
  notify_best();  // it may have come with the end
  note_out_of_memory();
}

void Supervisor::poll_until(TimePoint until) {
  pollfd polls[] = {{signal_fd_.get(), POLLIN, 0},
                    {output_ ? output_.get() : -1, POLLIN, 0},
                    {notices_.fd(), POLLIN, 0},
                    {notifier_.fd(), POLLIN, 0}};
  until = std::min(until, notifier_.next_at());
  ::poll(polls, 4, until == TimePoint::max() ? -1 : milliseconds_until(until));
  if (polls[1].revents != 0) drain();
  if (polls[2].revents != 0) receive_notices();
  step_notifier();
}

void Supervisor::drain() {
  Bytes buffer(kOutputReadBytes);
  for (int reads = 0; reads < kDrainReadsMax; ++reads) {
    const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) output_.reset();  // all writers have closed it
    if (got <= 0) return;
    const ByteSpan output = ByteSpan(buffer).first(static_cast<std::size_t>(got));
    log_.append(output, unix_ms());
    if (spec_.has_notify())
      tail_.add({reinterpret_cast<const char*>(output.data()), output.size()});
    if (static_cast<std::size_t>(got) < buffer.size()) return;
  }
}

bool Supervisor::reap() {
  bool ended = false;
  for (;;) {
    int status = 0;
    rusage used{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &used);
    if (pid <= 0) return ended;
    if (notifier_.on_reaped(pid, status)) continue;
    if (pid == child_) {
      wait_status_ = status;
      used_ = used;
      ended = true;
    }
  }
}

void Supervisor::kill_if_it_hangs() {
  const TimePoint at = now();
  // INVARIANT: a watcher's own pause does not count.
  // A supervisor that was suspended, or had to wait for a disk, may not have read the pulses.
  if (at - looked_at_ > kOwnGap) {
    watch_.discount(at);
    stall_.discount(at);
  }
  looked_at_ = at;
  const auto hang = watch_.hangs(at);
  if (!hang || notices_.fd() < 0) return;
  if (hang_.empty()) log_line("killed because it hung (" + *hang + ")");
  hang_ = *hang;
  ::kill(-child_, SIGKILL);
}

void Supervisor::restore_records() {
  if (has_record(root_, folder_, "pid") && has_record(root_, folder_, "spec")) return;
  // This cannot restore a root that a teardown removed: a teardown ends this supervisor first.
  if (!folder_.make_directories(root_.fd.get())) return;
  if (write_record(root_, folder_, "spec", spec_) &&
      write_incarnation(root_, folder_, incarnation_) &&
      write_pid(root_, folder_, child_, incarnation_, guard_)) {
    log_line("its records were removed, and have been written again");
    reserve_records(root_, folder_);
  }
}

void Supervisor::note_out_of_memory() {
  const bool is_killed = WIFSIGNALED(wait_status_) && WTERMSIG(wait_status_) == SIGKILL;
  const bool is_ours = !hang_.empty();
  const bool is_oom = is_killed && !is_ours && oom_.has_counted(now());
  out_of_memory_bytes_ = is_oom ? exit_record(wait_status_, used_).resident_peak_bytes() : 0;
}

// The decision to start the process again.

bool Supervisor::starts_again() {
  const StopMode stop = stop_mode();
  if (stop == StopMode::kNow) return false;
  if (stop == StopMode::kSave && !has_to_save()) return false;
  const bool is_ordered =
      WIFSIGNALED(wait_status_) && is_restart_ordered(root_, folder_, incarnation_);
  const auto pause = pause_before_restart(stop, is_ordered);
  if (!pause) return false;
  log_line((is_ordered ? "ended by paddlectl restart" : describe_end()) + "; it is started again");
  wire::agent::Restart why;
  why.set_incarnation(incarnation_);
  why.set_failures(is_ordered ? 0 : restarts_.failures());
  why.set_ordered(is_ordered);
  why.set_hang(hang_);
  why.set_out_of_memory_bytes(out_of_memory_bytes_);
  (void)add_restart(root_, folder_, wait_status_, std::move(why));  // the log contains it too
  if (!is_ordered) notify_restart();
  const TimePoint until = now() + *pause;
  while (stop_mode() == StopMode::kNone && now() < until) {
    pollfd polls[] = {{signal_fd_.get(), POLLIN, 0}, {notifier_.fd(), POLLIN, 0}};
    ::poll(polls, 2, milliseconds_until(std::min(until, notifier_.next_at())));
    read_signals();
    reap();
    step_notifier();
  }
  return stop_mode() != StopMode::kNow;
}

std::optional<Duration> Supervisor::pause_before_restart(StopMode stop, bool is_ordered) {
  // `paddlectl restart` has ended the run: this is no failure.
  if (is_ordered) return Duration::zero();
  Run run{wait_status_, started_at_, now(), notices_.has_progressed(), notices_.progressed_at()};
  // The stop's SIGTERM came before the trainer could save. If the trainer exited with a code, the
  // policy may not start it again. The run therefore counts as ended by the signal, so that the
  // trainer is started again to save.
  if (stop == StopMode::kSave && is_interrupted()) run.wait_status = SIGTERM;
  return restarts_.next(run);
}

// True if SIGTERM ended the run, or if it exited as a trainer that received SIGTERM before it
// joined the job.
bool Supervisor::is_interrupted() const {
  return WIFSIGNALED(wait_status_)
             ? WTERMSIG(wait_status_) == SIGTERM
             : WEXITSTATUS(wait_status_) == static_cast<int>(Errc::kInterrupted);
}

// A trainer that failed just before or during a stop is started once more: without it the job
// cannot be saved.
bool Supervisor::has_to_save() const {
  const bool has_begun = incarnation_ > 1 || notices_.has_progressed().value_or(false);
  return !spec_.program().empty() && !is_save_requested_ && (has_begun || !is_interrupted());
}

// A process that was asked to save, but did not save, has not ended as requested.
bool Supervisor::ends_as_requested() const {
  const StopMode mode = requested_stop(root_, folder_);
  if (mode != StopMode::kSave) return mode == StopMode::kNow;
  if (WIFSIGNALED(wait_status_)) return WTERMSIG(wait_status_) == SIGTERM;
  const int code = WEXITSTATUS(wait_status_);
  return code == 0 || code == static_cast<int>(Errc::kResumable) ||
         code == static_cast<int>(Errc::kInterrupted) || code == kShellSignalBase + SIGTERM;
}

std::string Supervisor::describe_end() const {
  if (out_of_memory_bytes_ > 0) return "killed by the kernel: out of memory";
  if (WIFSIGNALED(wait_status_)) {
    return "killed by signal " + std::to_string(WTERMSIG(wait_status_));
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status_));
}

// Notices.

void Supervisor::receive_notices() {
  const std::int64_t before = notices_.latest() ? notices_.latest()->received_steady_ms() : 0;
  notices_.receive(root_, folder_, watch_);
  const auto& latest = notices_.latest();
  if (!latest || latest->received_steady_ms() == before) return;
  stall_.on_notice(now(), *latest);
  // The notice of a failure has no room for them.
  if (latest->phase() == wire::PHASE_FAILED) return;
  silent_peers_.clear();
  const char* const role = spec_.name().starts_with("pserver-") ? "trainer " : "pserver ";
  for (const wire::Silent& silent : latest->progress().silent())
    silent_peers_.push_back(role + std::to_string(silent.index()));
}

void Supervisor::look_for_events() {
  if (!spec_.has_notify()) return;
  // A supervisor that was suspended may not have read the notices yet.
  if (now() - looked_at_ <= kOwnGap) {
    if (const auto stall = stall_.look(now()))
      notify(NotifyEvent::kStalled, fmt::format("stands still: {} has {}", spec_.name(), *stall));
  }
  notify_best();
  look_at_disk();
}

void Supervisor::notify_best() {
  const auto& latest = notices_.latest();
  if (!spec_.has_notify() || !latest || !latest->progress().has_best()) return;
  const wire::Best& best = latest->progress().best();
  const bool is_new = !best_ || best.pass() != best_->pass() || best.value() != best_->value();
  best_ = best;
  if (is_new)
    notify(NotifyEvent::kBest, fmt::format("has a new best: {} {:.6g} in pass {}", best.figure(),
                                           best.value(), best.pass() + 1));
}

void Supervisor::look_at_disk() {
  if (!notifier_.wants(NotifyEvent::kDiskLow) || now() < disk_at_) return;
  disk_at_ = now() + kDiskPeriod;
  struct statvfs disk {};
  if (::fstatvfs(root_.fd.get(), &disk) != 0) return;
  const std::uint64_t free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (!is_disk_low(free_bytes, std::uint64_t{disk.f_blocks} * disk.f_frsize)) return;
  if (disk_low_at_ && now() - *disk_low_at_ < kDiskLowPeriod) return;  // the claim may be lost
  disk_low_at_ = now();
  if (claim_event(root_, spec_.job(), name_of(NotifyEvent::kDiskLow), kDiskLowPeriod))
    notify(NotifyEvent::kDiskLow,
           fmt::format("has only {} left on the disk of its folder", human_bytes(free_bytes)));
}

RunEnd Supervisor::run_end() const {
  RunEnd end{
      .wait_status = wait_status_, .hang = hang_, .out_of_memory_bytes = out_of_memory_bytes_};
  const auto& latest = notices_.latest();
  if (latest && latest->phase() == wire::PHASE_FAILED) end.failure = latest->failure();
  const StopMode stop = requested_stop(root_, folder_);
  const wire::agent::StopRequest request = read_stop_request(root_, folder_);
  end.is_stopped_as_rest = stop == StopMode::kNow && request.is_rest();
  end.has_ended_before_stop = request.is_late();
  end.is_ordered = stop != StopMode::kNone && request.by() != kTimeLimit &&
                   !end.is_stopped_as_rest && !end.has_ended_before_stop;
  end.silent_peers = silent_peers_;
  end.is_shut_down = is_end_requested_ && !end.is_stopped_as_rest;
  return end;
}

void Supervisor::notify(NotifyEvent event, const std::string& text, const std::string& cause) {
  if (!notifier_.wants(event)) return;
  NoticeFacts facts{
      .event = event,
      .unix_ms = unix_ms(),
      .text = fmt::format("job {} on {} {}", spec_.job(), spec_.notify().node(), text),
      .cause = cause,
      .progress = {}};
  if (notices_.latest() && notices_.latest()->has_progress())
    facts.progress = notices_.latest()->progress();
  notifier_.add(event, notice_fields(spec_, facts, tail_));
}

void Supervisor::notify_restart() {
  const RunEnd end = run_end();
  if (!spec_.has_notify() || kind_of(spec_, end) != EndKind::kFailure) return;
  const std::string cause = cause_of(end);
  notify(NotifyEvent::kRestarted,
         fmt::format("starts {} again ({} of {} restarts in an hour): {}", spec_.name(),
                     restarts_.failures(), spec_.restarts(), cause),
         cause);
}

void Supervisor::notify_end() {
  if (!spec_.has_notify()) return;
  const RunEnd end = run_end();
  const auto event = event_of_end(spec_, end);
  if (!event) return;
  if (*event == NotifyEvent::kDone) {
    const bool is_saved = kind_of(spec_, end) == EndKind::kSaved;
    return notify(*event, is_saved ? "has stopped and saved; paddlectl train --resume continues it"
                                   : "is done");
  }
  const std::string cause = cause_of(end);
  // Another process of the job on this node may have failed first.
  if (notifier_.wants(*event) &&
      claim_event(root_, spec_.job(), failed_event(spec_), Duration::max()))
    notify(*event, fmt::format("has failed: {} {}", spec_.name(), cause), cause);
}

bool Supervisor::are_notices_over() const {
  if (is_end_requested_) return true;
  const auto record = read_record(root_, spec_.job(), spec_.name());
  if (!record || record->pid.supervisor() != ::getpid()) return true;
  // The stop of the rest of a failed job leaves them.
  return requested_stop(root_, folder_) == StopMode::kNow &&
         !read_stop_request(root_, folder_).is_rest();
}

// INVARIANT: a command never keeps a job from ending, from starting again or from being removed.
// The exit record is written, and the lock of the next supervisor is free. SIGTERM, of stop --now
// or teardown, another supervisor of the process, and the removal of the records end the command.
void Supervisor::finish_notices() {
  lock_.reset();
  notifier_.hurry();
  TimePoint give_up = TimePoint::max();
  while (!notifier_.is_idle() && now() < give_up) {
    if (give_up == TimePoint::max() && are_notices_over()) {
      notifier_.end();
      give_up = now() + kNotifierGrace;
    }
    step_notifier();
    if (notifier_.is_idle()) break;
    pollfd polls[] = {{signal_fd_.get(), POLLIN, 0}, {notifier_.fd(), POLLIN, 0}};
    const TimePoint until = std::min(now() + kWatchPeriod, notifier_.next_at());
    ::poll(polls, 2, milliseconds_until(until));
    read_signals();
    reap();
  }
}

// After a run.

void Supervisor::read_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGURG) {
      request_save();
    } else {
      is_end_requested_ = is_end_requested_ || info.ssi_signo != SIGCHLD;
    }
  }
}

bool Supervisor::request_save() {
  if (spec_.name().starts_with("pserver-")) return false;
  const UniqueFd lock = lock_stop_requests(root_, spec_.job());
  if (requested_stop(root_, folder_) != StopMode::kNone) return false;
  wire::agent::StopRequest request;
  request.set_ask(true);
  request.set_by(kTimeLimit);
  const Status written = write_stop_request(root_, folder_, request);
  log_line(written ? "the time limit of this node is near: asked to save"
                   : "cannot be asked to save: " + written.error().message);
  return bool(written);
}

// The descendants of the process that still run, in any process group. Those in another session are
// found by the mark in their environment. This supervisor is their subreaper.
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

// Ends the leftovers, and logs their last output.
void Supervisor::end_leftovers() {
  std::vector<ProcStat> left = leftovers();
  const std::vector<ProcStat> known = left;
  for (const ProcStat& process : left) send_signal(process, SIGTERM);
  const TimePoint kill_at = now() + kLeftoverGrace;
  while (!left.empty() && now() < kill_at) {
    pollfd polls[] = {{signal_fd_.get(), POLLIN, 0}, {output_ ? output_.get() : -1, POLLIN, 0}};
    ::poll(polls, 2, milliseconds_until(kill_at));
    if (polls[1].revents != 0) drain();
    read_signals();
    reap();
    left = leftovers();
  }
  for (const ProcStat& process : left) send_signal(process, SIGKILL);
  // A process that ends is in no list, but has its number, and for a moment its files, until then.
  const TimePoint reaped_by = now() + kReapGrace;
  ProcStat same;
  for (const ProcStat& process : known) {
    while (read_stat(process.pid, same) && same.start_ticks == process.start_ticks) {
      if (reap(); now() >= reaped_by) break;
      ::poll(nullptr, 0, 1);
    }
  }
  if (output_) drain();
}

// If the exit record cannot be written to the disk, it is lost when this supervisor ends. So the
// supervisor waits until the disk accepts it, or until a SIGTERM after the first kLateSignals.
void Supervisor::keep_end() {
  const TimePoint until = now() + kLateSignals;
  bool was_requested = is_end_requested_;  // for finish_notices()
  const auto has_to_wait = [&] {
    return !move_records_to_disk(root_, folder_, spec_.job()) && is_end_in_memory(root_, folder_) &&
           (now() < until || !is_end_requested_);
  };
  if (!has_to_wait()) return;
  do {
    pollfd signals{signal_fd_.get(), POLLIN, 0};
    ::poll(&signals, 1, kKeepPeriodMs);
    is_end_requested_ = false;
    read_signals();
    was_requested = was_requested || is_end_requested_;
    reap();
    step_notifier();
  } while (has_to_wait());
  is_end_requested_ = was_requested;
  wipe_unneeded_keys(root_, spec_.job());  // the first wipe may have failed, too
}

// The guard of a supervisor: waits for it, and starts another one when it was killed.

class Guard {
 public:
  Guard() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals_, signal);
    ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }

  bool is_end_requested() const { return is_end_requested_; }
  // Waits for the supervisor and, as a subreaper, reaps the processes that it leaves. Returns the
  // status of wait(2).
  int wait_for(pid_t supervisor) {
    for (;;) {
      int status = 0;
      for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended == supervisor) return status;
      }
      if (is_end(::sigwaitinfo(&signals_, nullptr))) ::kill(supervisor, SIGTERM);
    }
  }
  void pause(Duration time) {
    const TimePoint until = now() + time;
    for (int ms = 0; !is_end_requested_ && (ms = milliseconds_until(until)) > 0;) {
      const timespec left{ms / 1000, ms % 1000 * 1'000'000L};
      is_end(::sigtimedwait(&signals_, nullptr, &left));
    }
  }

 private:
  bool is_end(int signal) {
    const bool is_end = signal > 0 && signal != SIGCHLD;
    is_end_requested_ = is_end_requested_ || is_end;
    return is_end;
  }

  sigset_t signals_{};
  bool is_end_requested_ = false;
};

// Calls `supervise` in a child process with the number of the start, from 1. If a signal ended the
// child, starts another one, as often in an hour as `spec` allows restarts, unless is_restartable()
// returns false or this process received SIGTERM, SIGINT or SIGHUP, which it passes on as SIGTERM.
// Returns in the parent the exit code of the last child, or kLost, and in a child the result of
// `supervise`. Closes `status` in the parent once the child has it.
int guard(const wire::agent::ProcessSpec& spec, const std::function<int(int start)>& supervise,
          const std::function<bool()>& is_restartable, UniqueFd& status) {
  constexpr int kLost = 1;
  Guard guard;
  RestartPolicy policy(spec);
  for (int start = 1;; ++start) {
    const TimePoint started = now();
    const pid_t supervisor = ::fork();
    if (supervisor == 0) return supervise(start);
    if (supervisor < 0) return start == 1 ? supervise(start) : kLost;  // without a guard
    status.reset();
    const int end = guard.wait_for(supervisor);
    if (!WIFSIGNALED(end)) return WEXITSTATUS(end);
    if (guard.is_end_requested() || !is_restartable()) return kLost;
    const auto pause = policy.next({end, started, now(), {}});
    if (!pause) return kLost;
    guard.pause(*pause);
    if (guard.is_end_requested() || !is_restartable()) return kLost;
  }
}

// The program: one supervisor, from its specification to its end.

constexpr std::size_t kSpecBytesMax = 64U << 10U;
// Longer than a supervisor takes to end leftovers.
constexpr Duration kLockDeadline = std::chrono::seconds(7);
constexpr int kLockPollMs = 10;

TimePoint in(Duration time) {
  return TimePoint(std::chrono::steady_clock::now()) + time;
}

// Waits for the lock while the supervisor of an ended process is still ending its leftovers.
bool wait_for_lock(int lock, const Root& root, const SafePath& folder) {
  const TimePoint give_up = in(kLockDeadline);
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (!has_record(root, folder, "exit") || in({}) >= give_up) return false;
    ::poll(nullptr, 0, kLockPollMs);
  }
  return true;
}

Result<wire::agent::ProcessSpec> read_spec(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kSpecBytesMax) break;
  }
  wire::agent::ProcessSpec spec;
  if (text.size() > kSpecBytesMax || !spec.ParseFromString(text)) {
    return Error{Errc::kData, "malformed process specification", ""};
  }
  return spec;
}

// Calls `prepare` with the process's folder once no other supervisor has the lock on it.
Result<Supervisor> make_supervisor(
    const std::string& root_path, const wire::agent::ProcessSpec& spec,
    const std::function<Status(const Root& root, const SafePath& folder)>& prepare) {
  PADDLE_TRY(Root root, open_root(root_path));
  PADDLE_TRY(SafePath folder, process_folder(spec.job(), spec.name()));
  PADDLE_TRY_STATUS(folder.make_directories(root.fd.get()));
  PADDLE_TRY(UniqueFd lock, folder.open_directory(root.fd.get()));
  if (!wait_for_lock(lock.get(), root, folder)) {
    return Error{Errc::kFailed, spec.job() + "/" + spec.name() + " is running already",
                 "stop it first"};
  }
  const std::uint32_t incarnation = last_incarnation(root, folder);
  PADDLE_TRY_STATUS(prepare(root, folder));
  PADDLE_TRY(LogWriter log, LogWriter::open(root, spec.log()));
  return Supervisor(std::move(root), spec, std::move(folder), std::move(lock), std::move(log),
                    incarnation);
}

struct Supervision {
  std::string root;
  wire::agent::ProcessSpec spec;
  Environment environment;
  ProcStat guard;  // has no pid if there is no guard
  TimePoint guarded_from;
  // Kept by the guard, so that they outlive a supervisor.
  UniqueFd memory = {};
  UniqueFd records = {};  // of make_record_memory()
};

void report_start(const Status& started, UniqueFd& status) {
  std::string text(1, kStarted);
  if (!started) {
    wire::agent::ErrorReply reply;
    reply.set_code(static_cast<int>(started.error().code));
    reply.set_message(started.error().message);
    reply.set_hint(started.error().hint);
    text = kStartFailed + reply.SerializeAsString();
  }
  [[maybe_unused]] const auto written =
      write_all(status.get(), as_bytes(text), in(std::chrono::seconds(10)));
  status.reset();
}

// Kills the commands of [notify] that an earlier supervisor of the process has left.
void kill_commands(const Root& root, const wire::agent::ProcessSpec& spec) {
  for (const ProcStat& process : notices_of(root, spec.job() + "/" + spec.name() + "/"))
    send_signal(process, SIGKILL);
}

int supervise_first(const Supervision& supervision, UniqueFd& status) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto supervisor = make_supervisor(supervision.root, supervision.spec,
                                    [&](const Root& root, const SafePath& folder) {
                                      for (const char* file : {"pid", "exit", "stop"})
                                        remove_record(root, folder, file);
                                      kill_commands(root, supervision.spec);
                                      return write_record(root, folder, "spec", supervision.spec);
                                    });
  Status started = supervisor ? Status() : Status(supervisor.error());
  if (supervisor) {
    supervisor->set_guard(supervision.guard);
    supervisor->set_memory(supervision.memory.get());
    started = supervisor->start(supervision.environment);
  }
  report_start(started, status);
  if (!started) return 1;
  supervisor->run(supervision.environment);
  return 0;
}

// Runs the supervisor that follows a killed one. All records stay, including a stop request.
int supervise_next(const Supervision& supervision) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::optional<Record> before;
  auto supervisor = make_supervisor(
      supervision.root, supervision.spec, [&](const Root& root, const SafePath&) -> Status {
        kill_commands(root, supervision.spec);
        before = read_record(root, supervision.spec.job(), supervision.spec.name());
        return before ? Status() : Status(Error{Errc::kData, "no record of the process", ""});
      });
  if (!supervisor) return 1;
  supervisor->set_guard(supervision.guard);
  supervisor->set_memory(supervision.memory.get());
  if (!supervisor->resume(*before, supervision.guarded_from)) return 1;
  supervisor->run(supervision.environment);
  return 0;
}

// Whether a process whose supervisor was killed is to be started again.
bool is_restartable(const Supervision& supervision) {
  const auto root = open_root(supervision.root);
  const auto folder = process_folder(supervision.spec.job(), supervision.spec.name());
  return root && folder && has_record(*root, *folder, "pid") &&
         requested_stop(*root, *folder) != StopMode::kNow && !has_record(*root, *folder, "exit");
}

}  // namespace

int supervise(const std::string& root_path, int spec_fd, int status_fd,
              const Environment& environment) {
  ::signal(SIGCHLD, SIG_DFL);  // the agent ignores SIGCHLD; waitpid would find no child
  UniqueFd status(status_fd);
  auto spec = read_spec(spec_fd);
  ::close(spec_fd);
  if (!spec) {
    report_start(spec.error(), status);
    return 1;
  }
  Supervision supervision{root_path, *std::move(spec), environment, {}, in({})};
  auto memory = memory_of(supervision.spec);
  auto records = make_record_memory();
  if (!memory || !records) {
    report_start(memory ? records.error() : memory.error(), status);
    return 1;
  }
  supervision.memory = *std::move(memory);
  supervision.records = *std::move(records);
  if (supervision.spec.restarts() == 0) return supervise_first(supervision, status);
  read_stat(::getpid(), supervision.guard);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return guard(
      supervision.spec,
      [&](int start) {
        return start == 1 ? supervise_first(supervision, status) : supervise_next(supervision);
      },
      [&] { return is_restartable(supervision); }, status);
}

}  // namespace paddle::agent
