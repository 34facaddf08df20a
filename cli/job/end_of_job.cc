#include "cli/job/end_of_job.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/console/time_text.h"
#include "cli/job/job_claim.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/pace.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr auto kStopGrace = std::chrono::seconds(5);
constexpr auto kPollPeriod = std::chrono::milliseconds(500);
constexpr auto kFirstPollPeriod = std::chrono::milliseconds(50);
// Time for the first failure of a job to be recorded on its node.
constexpr auto kSettlePause = std::chrono::milliseconds(500);
// Longer than the time in which `restart` leaves a job without a running process.
constexpr auto kRestartPause = std::chrono::seconds(3);
constexpr auto kNodeSilenceMax = std::chrono::seconds(22);
// The same for a job with --restarts, unless --timeout is given: its processes wait as long for
// their peers, and a pod that is made again on another machine may first need its image.
constexpr auto kNodeAwaitedFor = std::chrono::minutes(10);
// A wait for a node is printed after this time, and again each time it has doubled.
constexpr auto kFirstWaitNote = std::chrono::seconds(20);
// How often a node that has lost its folder is asked whether somebody has prepared it again.
constexpr auto kLookAgainPeriod = std::chrono::seconds(2);
// Limit for a connection and for each answer of a node while a job is followed, unless --timeout is
// given. Three such waits fit into kNodeSilenceMax and the pause after it, so a lost node is
// reported within 30 seconds.
constexpr auto kFollowPatience = std::chrono::seconds(8);
constexpr auto kUsualPatience = std::chrono::seconds(30);
// About the longest time that a teardown by another terminal takes from its first node to its last.
constexpr auto kLossPause = std::chrono::seconds(12);
// Longer than kLookAgainPeriod.
constexpr Duration kReplacedPause = std::chrono::seconds(3);
// A supervisor writes removed records again; records that are missing after this pause stay
// missing.
constexpr auto kGonePause = std::chrono::seconds(3);
// If a node has been silent and the job makes no progress for this long, the job cannot continue
// without that node.
constexpr auto kStandstill = std::chrono::seconds(10);
// How long a process's restart after a lost peer counts as a sign of the loss.
constexpr auto kLostPeerHolds = std::chrono::seconds(60);
// Time for the job's other processes to notice the same silence, and to end because of it.
constexpr auto kPeersEndPause = std::chrono::seconds(3);
constexpr std::size_t kNamesMax = 4;

// While this object exists, Ctrl-C prints nothing: the loop in its scope checks for Ctrl-C at least
// every kPollPeriod.
class InterruptsAnswered {
 public:
  explicit InterruptsAnswered(Context& context) : context_(context) { note(false); }
  ~InterruptsAnswered() { note(true); }
  InterruptsAnswered(const InterruptsAnswered&) = delete;
  InterruptsAnswered& operator=(const InterruptsAnswered&) = delete;

 private:
  void note(bool wanted) const {
    if (context_.note_interrupts) context_.note_interrupts(wanted);
  }
  Context& context_;
};

// Whether a stop ended this trainer immediately, because it had nothing to save yet.
bool is_stopped_unbegun(const remote::ProcessStatus& status) {
  return !is_pserver(status) && status.reports && !status.progress && status.stopped &&
         !is_running(status);
}

// Nothing while a trainer runs; then whether all trainers reached the end of the job, instead of
// saving and stopping earlier.
std::optional<bool> ended(const std::vector<ProcessOnNode>& processes) {
  std::optional<bool> finished;
  for (const ProcessOnNode& process : processes) {
    if (is_pserver(process.status)) continue;
    if (!ended_well(process.status) && !is_resumable(process.status)) return std::nullopt;
    finished = finished.value_or(true) && !is_resumable(process.status);
  }
  return finished;
}

// Watches a stop: prints which processes it waits for when they change, and fails once none has
// made progress for too long.
class StopWait {
 public:
  // remedy: text that names the command that ends the job immediately; "" if it was printed before.
  StopWait(Context& context, std::string job, std::string remedy)
      : context_(context),
        job_(std::move(job)),
        remedy_(std::move(remedy)),
        begun_at_(context.clock.now()),
        moved_at_(begun_at_) {}

  Status look(ClusterSession& session, const std::vector<ProcessOnNode>& processes) {
    const Paces paces = paces_of(processes);
    const TimePoint now = context_.clock.now();
    bool moves = false;
    std::string mark;
    for (const auto& [member, status] : processes) {
      if (is_pserver(status) || !is_running(status)) continue;
      mark += fmt::format("{} {} ", status.name, status.progress ? status.progress->unix_ms : 0);
      // A user's own program does not report progress.
      moves = moves || !status.reports || paces.at(status.name).pace == Pace::kSaving;
    }
    if (mark.empty()) return {};
    if (moves || std::exchange(mark_, mark) != mark) moved_at_ = now;
    const std::vector<std::string> stalls = describe_stalls(paces, nodes_of(session, processes));
    if (now - moved_at_ > kStopSilenceMax || now - begun_at_ > kCleanStopDeadline)
      return give_up(now, stalls);
    if (const std::string whom = names_of(processes, paces); whom != told_) {
      context_.console.note(fmt::format("waiting for {}{}", whom, remedy_));
      told_ = whom;
    }
    return {};
  }

 private:
  Error give_up(TimePoint now, const std::vector<std::string>& stalls) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begun_at_);
    std::string message =
        fmt::format("{} was asked to stop {} s ago and still runs", job_, seconds.count());
    for (const std::string& stall : stalls) message += "\n" + stall;
    return {Errc::kFailed, std::move(message), ""};
  }

  // Processes that delay the stop: hung ones, else those others wait for, else all that still run.
  static std::string names_of(const std::vector<ProcessOnNode>& processes, const Paces& paces) {
    std::set<std::string> stalled, awaited, running;
    for (const auto& [name, pace] : paces) {
      if (pace.pace == Pace::kStalled) stalled.insert(name + ", which is stalled");
      awaited.insert(pace.waits_for.begin(), pace.waits_for.end());
    }
    for (const ProcessOnNode& process : processes) {
      if (is_running_trainer(process)) running.insert(process.status.name);
    }
    if (!stalled.empty()) return fmt::format("{}", fmt::join(stalled, "; "));
    const std::set<std::string>& names = awaited.empty() ? running : awaited;
    if (names.size() > kNamesMax)
      return counted(names.size(), "trainer") + " to finish their batch and save";
    return fmt::format("{} to save", fmt::join(names, ", "));
  }

  Context& context_;
  std::string job_;
  std::string remedy_;
  TimePoint begun_at_, moved_at_;
  std::string mark_, told_;
};

// first_failure(), but also finds a pserver's failure if no trainer is seen.
const ProcessOnNode* failure_seen(const std::vector<ProcessOnNode>& processes) {
  const auto failed = std::ranges::find_if(processes, [](const ProcessOnNode& process) {
    return !ended_well(process.status) && !is_resumable(process.status);
  });
  const bool sees_trainer = !std::ranges::all_of(processes, is_pserver, &ProcessOnNode::status);
  if (sees_trainer || failed == processes.end()) return first_failure(processes);
  return &*failed;
}

// Whether a process has lost its connection to another one: it exited for that reason (and may have
// been restarted), or it receives no heartbeats. A long test or save does not count.
bool has_lost_peer(const remote::ProcessStatus& status) {
  const auto code = static_cast<int>(Errc::kUnreachable);
  if (status.state == remote::ProcessState::kExited && status.exit_code == code) return true;
  const std::int64_t holds_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(kLostPeerHolds).count();
  const bool came_back = std::ranges::any_of(status.restarts, [&](const remote::Restart& restart) {
    return restart.failures == 0 && !restart.ordered && restart.age_ms < holds_ms;
  });
  if (came_back || !status.progress) return came_back;
  return std::ranges::any_of(status.progress->missed_ms,
                             [](const auto& missed) { return missed.second >= kMissedMinMs; });
}

// Connects with a shorter limit than commands that only query: the job's other nodes may be
// waiting.
void reconnect_soon(Context& context, ClusterSession& session) {
  const Duration asked = context.limits.timeout;
  if (asked == Duration()) context.limits.timeout = kFollowPatience;
  session.reconnect(context);
  context.limits.timeout = asked;
}

// Watches whether a followed job has lost a node, or makes no progress because a node is silent.
class LossWatch {
 public:
  LossWatch(Context& context, std::string job, JobSummary& summary)
      : context_(context),
        job_(std::move(job)),
        summary_(summary),
        moved_at_(context.clock.now()) {}

  void look(ClusterSession& session, const std::vector<ProcessOnNode>& processes) {
    const TimePoint now = context_.clock.now();
    loss_ = look_for_lost_nodes(context_, session, job_, processes, places_);
    places_.note(session, processes);
    note_restarts(session, processes);
    note_since(loss_ && loss_->were_seen, now, lost_since_);
    note_since(loss_ && loss_->is_absent, now, absent_since_);
    tell_incomplete();
    note_since(processes.empty() && session.unreachable() == 0, now, gone_since_);
    note_since(session.unreachable() > 0, now, silent_since_);
    note_progress(processes, now);
    tell_silent(session);
  }
  // Lets the session look now and then whether another command has prepared a lost node again.
  void look_again(ClusterSession& session) {
    const TimePoint now = context_.clock.now();
    const bool is_any_absent = std::ranges::any_of(places_.of_process(), [&](const auto& place) {
      return session.members()[place.second].absent;
    });
    if (!is_any_absent || now - looked_again_at_ < kLookAgainPeriod) return;
    looked_again_at_ = now;
    for (const auto& [name, member] : places_.of_process()) session.look_again(member);
    reconnect_soon(context_, session);
  }
  // Whether a node seems lost. It may also be a teardown by another terminal that is not finished.
  bool suspects() const { return lost_since_.has_value(); }
  std::optional<Error> verdict() const {
    const TimePoint now = context_.clock.now();
    // No teardown makes another machine of a node; but another command may prepare it again.
    const Duration pause = loss_ && loss_->is_replaced ? kReplacedPause : kLossPause;
    const bool is_lost = lost_since_ && now - *lost_since_ >= pause;
    const bool is_held_up = absent_since_ && now - *absent_since_ >= kLossPause && stands_still();
    return is_lost || is_held_up ? std::optional(loss_->error) : std::nullopt;
  }
  // Puts the lost node before another process's failure, which is a consequence of the loss.
  Error with_loss(Error error) const {
    if (!loss_) return error;
    error.message = loss_->error.message + "\n" + error.message;
    error.hint = loss_->error.hint;
    return error;
  }
  // Puts the restart of a process's node before the process that was lost with it.
  Error with_restart(const ProcessOnNode& process, Error error) const {
    const auto restart = restarted_.find(process.member);
    if (restart == restarted_.end()) return error;
    error.message = restart->second + "\n" + error.message;
    return error;
  }
  // The nodes to prepare again, if `first` is the first failure, or null for the verdict(). None if
  // something else ended the job.
  std::vector<std::string> returned_nodes(const ClusterSession& session,
                                          const ProcessOnNode* first) const {
    std::vector<std::string> names;
    if (first != nullptr && restarted_.contains(first->member)) {
      for (const auto& [member, text] : restarted_)
        names.push_back(session.members()[member].spec.name);
    } else if (first == nullptr && loss_ && loss_->is_replaced) {
      for (const std::size_t member : loss_->members)
        names.push_back(session.members()[member].spec.name);
    }
    return names;
  }
  // How long the job's nodes may be silent.
  Duration patience(bool is_asked) const {
    if (summary_.restarts_allowed == 0 || is_asked) return kNodeSilenceMax;
    return context_.limits.timeout > Duration() ? context_.limits.timeout
                                                : Duration(kNodeAwaitedFor);
  }
  void tell_wait(const ClusterSession& session, Duration waited, Duration patience) {
    if (patience <= kNodeSilenceMax || waited < next_wait_note_) return;
    next_wait_note_ = std::max<Duration>(next_wait_note_, kFirstWaitNote) * 2;
    for (const Member& member : session.members()) {
      if (!member.client && !member.absent)
        context_.console.note(describe_wait(member.spec.name, waited));
    }
  }
  void end_wait() { next_wait_note_ = kFirstWaitNote; }
  // Whether the silence has been watched for long enough to know if the job stands still without
  // the node: with --timeout, the first answer may be awaited for longer than the node.
  bool knows_standstill() const {
    if (context_.limits.timeout == Duration()) return true;
    return silent_since_ && context_.clock.now() - *silent_since_ > kStandstill;
  }
  // Whether no node has had anything of the job for a while.
  bool is_gone() const {
    return gone_since_ && !lost_since_ && context_.clock.now() - *gone_since_ >= kGonePause;
  }
  bool stands_still() const {
    return lost_peer_ && reports_ && context_.clock.now() - moved_at_ >= kStandstill;
  }

 private:
  static void note_since(bool is, TimePoint now, std::optional<TimePoint>& since) {
    if (!is) since.reset();
    if (is && !since) since = now;
  }

  // Notes the nodes whose processes of the job are lost because the node was started again.
  void note_restarts(ClusterSession& session, const std::vector<ProcessOnNode>& processes) {
    restarted_.clear();
    for (const auto& [member, status] : processes) {
      summary_.restarts_allowed = std::max(summary_.restarts_allowed, status.restarts_allowed);
      if (status.state != remote::ProcessState::kLost || restarted_.contains(member)) continue;
      const std::string text = describe_restart(context_, session, member, places_);
      if (!text.empty()) restarted_.emplace(member, text);
    }
  }

  // A restarted process begins behind its last position, so only a position beyond it is progress.
  void note_progress(const std::vector<ProcessOnNode>& processes, TimePoint now) {
    lost_peer_ = false;
    for (const auto& [member, status] : processes) {
      lost_peer_ = lost_peer_ || has_lost_peer(status);
      if (!is_running(status)) continue;
      reports_ = reports_ || status.reports;
      if (is_pserver(status)) continue;
      if (!status.reports) moved_at_ = now;  // a user's own program reports nothing
      if (!status.progress) continue;
      const std::pair<std::uint64_t, std::uint64_t> at{status.progress->pass,
                                                       status.progress->batch};
      const auto [best, is_first] = furthest_.try_emplace(status.name, at);
      if (!is_first && at > best->second) moved_at_ = now;
      best->second = std::max(best->second, at);
    }
  }

  // Prints once that the job has lost processes which were never seen; it may still continue.
  void tell_incomplete() {
    if (!loss_ || loss_->were_seen || loss_->error.message == told_) return;
    told_ = loss_->error.message;
    context_.console.note(told_);
  }

  // Prints the nodes that have become silent, once for each silence.
  void tell_silent(const ClusterSession& session) {
    std::set<std::string> silent;
    for (const Member& member : session.members()) {
      if (member.client || member.absent) continue;
      silent.insert(member.spec.name);
      if (silent_.contains(member.spec.name)) continue;
      std::vector<std::string> names;
      for (const auto& [name, place] : places_.of_process()) {
        if (place == session.index_of(member)) names.push_back(name);
      }
      context_.console.note(fmt::format(
          "node {} does not answer{}: {}", member.spec.name,
          names.empty() ? "" : fmt::format(", where {} of {} ran", fmt::join(names, ", "), job_),
          member.error ? member.error->message : "no connection"));
    }
    silent_ = std::move(silent);
  }

  Context& context_;
  std::string job_;
  JobSummary& summary_;
  ProcessPlaces places_;
  std::optional<LostNodes> loss_;
  std::optional<TimePoint> lost_since_, absent_since_, gone_since_, silent_since_;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> furthest_;  // pass and batch
  std::map<std::size_t, std::string> restarted_;  // members, as describe_restart() has it
  bool reports_ = false;    // some process reports, so it is not a user's own program
  bool lost_peer_ = false;  // some process has lost a peer, as of the last look()
  TimePoint moved_at_;
  TimePoint looked_again_at_{};
  std::set<std::string> silent_;  // nodes, as printed
  std::string told_;              // the last note about an incomplete job
  Duration next_wait_note_ = kFirstWaitNote;
};

// While this object exists, the connected nodes have kFollowPatience for each answer.
class ShortPatience {
 public:
  ShortPatience(Context& context, ClusterSession& session)
      : session_(session), is_wanted_(context.limits.timeout == Duration()) {}
  ~ShortPatience() {
    if (is_wanted_) session_.set_patience(kUsualPatience);
  }
  ShortPatience(const ShortPatience&) = delete;
  ShortPatience& operator=(const ShortPatience&) = delete;
  void apply() {
    if (is_wanted_) session_.set_patience(kFollowPatience);
  }

 private:
  ClusterSession& session_;
  bool is_wanted_;
};

// The error if the nodes do not answer because their provider has taken them back.
std::optional<Error> end_of_nodes(const Context& context, const std::string& job) {
  const std::string cause = context.why_ended ? context.why_ended() : "";
  if (cause.empty()) return std::nullopt;
  return Error{Errc::kUnreachable,
               fmt::format("{}; {} has ended with its nodes", escape_control(cause), job),
               fmt::format("paddlectl up makes new nodes; then continue from its last snapshot: "
                           "paddlectl train --resume --name {} <workspace>",
                           job)};
}

// The error for a silent node, with the state of the job as far as the answering nodes know it.
Error silence_error(ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, bool stands_still) {
  auto silent = session.all_well();
  Error error =
      silent ? Error{Errc::kUnreachable, "a node does not answer", ""} : std::move(silent).error();
  error.code = Errc::kUnreachable;
  const auto running = static_cast<std::size_t>(
      std::ranges::count_if(processes, is_running, &ProcessOnNode::status));
  if (running > 0 && stands_still) {
    error.message += fmt::format("\n{} makes no progress without it", job);
    error.hint = fmt::format(
        "once the node answers, paddlectl stop --now --job {} ends the processes there; if the "
        "node does not return, leave it out with paddlectl up --any",
        job);
    return error;
  }
  if (running > 0) {
    error.message += fmt::format("\n{} of {} still {} on the nodes that answer",
                                 counted(running, "process"), job, running == 1 ? "runs" : "run");
    error.hint = fmt::format(
        "nothing was stopped; paddlectl status --job {0} shows what runs, paddlectl attach --job "
        "{0} follows it",
        job);
    return error;
  }
  error.hint = fmt::format(
      "once the node answers, paddlectl status --job {} shows the state of the rest", job);
  if (processes.empty()) {
    error.message += fmt::format("\nthe state of {} is unknown; it may still run", job);
    error.hint = fmt::format(
        "once a node answers, paddlectl status --job {0} shows its state, paddlectl attach --job "
        "{0} follows it",
        job);
  } else if (const ProcessOnNode* const first = failure_seen(processes)) {
    error.message += fmt::format("\nall processes of {} have ended on the nodes that answer: {}",
                                 job, failure_error(session, *first).message);
  } else {
    error.message +=
        fmt::format("\nall processes of {} have ended well on the nodes that answer", job);
  }
  return error;
}

Error stopped_unbegun(const std::string& job) {
  return {Errc::kInterrupted, job + " was stopped before all its trainers had begun", ""};
}

// The error for a job that is gone from all nodes.
Error gone_error(const ClusterSession& session, const std::string& job) {
  const bool is_torn_down = std::ranges::all_of(session.members(), &Member::absent);
  return {Errc::kInterrupted,
          fmt::format("job '{}' is no longer on its nodes{}, as after paddlectl {} at another "
                      "terminal",
                      job, is_torn_down ? ": they have no folder of this cluster" : "",
                      is_torn_down ? "teardown" : "rm"),
          ""};
}

std::string stopper_of(const remote::ProcessStatus& status) {
  return status.stopped_by.empty() ? "another terminal" : status.stopped_by;
}

// The error for a job that another terminal stopped, or that was stopped from here too early.
std::optional<Error> stopped_elsewhere(const std::string& job,
                                       const std::vector<ProcessOnNode>& processes, bool is_asked) {
  const bool is_stopped = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return process.status.stopped; });
  if (!is_stopped || !is_consequence(first_failure(processes))) return std::nullopt;
  if (is_asked && std::ranges::any_of(processes, is_stopped_unbegun, &ProcessOnNode::status))
    return stopped_unbegun(job);
  return Error{Errc::kInterrupted, describe_unsaved(processes, job), ""};
}

// The error for a start that was broken off, or for a job that has trained and has lost processes
// that were never seen from here.
Error incomplete_error(ClusterSession& session, const std::string& job, BrokenStart broken) {
  broken.has_trained = has_trained(session, job);
  return {broken.has_trained ? Errc::kUnreachable : Errc::kFailed, describe(broken, job), ""};
}

// The end of the job. Nothing while the job runs, or while a node seems lost: what the other nodes
// report may then be a consequence of that loss.
std::optional<Status> end_of(ClusterSession& session, const std::string& job,
                             const std::vector<ProcessOnNode>& processes, bool is_asked,
                             const LossWatch& loss, JobSummary& summary) {
  summary.returned_nodes.clear();
  if (auto lost = loss.verdict()) {
    summary.returned_nodes = loss.returned_nodes(session, nullptr);
    return *std::move(lost);
  }
  if (loss.is_gone()) return gone_error(session, job);
  const ProcessOnNode* const first = first_failure(processes);
  if (first != nullptr && !is_consequence(first)) {
    summary.returned_nodes = loss.returned_nodes(session, first);
    return loss.with_restart(*first, failure_error(session, *first));
  }
  if (loss.suspects()) return std::nullopt;
  if (auto elsewhere = stopped_elsewhere(job, processes, is_asked)) return *std::move(elsewhere);
  if (waits_in_vain(processes)) return stopped_unbegun(job);
  // A silent node may be the cause.
  if (session.unreachable() > 0) return std::nullopt;
  if (first != nullptr) return loss.with_loss(failure_error(session, *first));
  if (const auto broken = broken_start(session, processes))
    return incomplete_error(session, job, *broken);
  const std::optional<bool> finished = ended(processes);
  if (!finished) return std::nullopt;
  if (*finished) return Status();
  const auto stopped = std::ranges::find_if(processes, [](const ProcessOnNode& process) {
    return is_resumable(process.status) && !process.status.stopped_by.empty();
  });
  const bool is_elsewhere = !is_asked && stopped != processes.end();
  return Error{Errc::kResumable,
               job + " stopped before its end" +
                   (is_elsewhere ? ", as asked by " + stopped->status.stopped_by : ""),
               ""};
}

// Claims the job and returns its end. Without a claim, another command could start the job again:
// `restart` stops a job too, and starts it immediately. Returns nothing while such a command works,
// and prints a note about that command unless it equals `last_note`, the note printed before. The
// claim of a job that has ended is kept.
Result<std::optional<Status>> end_under_claim(Context& context, ClusterSession& session,
                                              const std::string& job,
                                              std::vector<ProcessOnNode>& processes, bool is_asked,
                                              LossWatch& loss, JobSummary& summary,
                                              std::string& last_note) {
  PADDLE_TRY(const Claimed claimed,
             claim_job(context, session, job, {.command = JobCommand::kFinish}));
  if (claimed.refused_by) {
    std::string text = describe(*claimed.refused_by, job);
    if (text != last_note) context.console.note(text);
    last_note = std::move(text);
    return std::optional<Status>();
  }
  processes = session.processes(job);
  loss.look(session, processes);
  auto end = end_of(session, job, processes, is_asked, loss, summary);
  if (!end) release_claim(session, job);
  return end;
}

// How long to wait for the next look at a job that has been followed for `age`: an eighth of it, so
// that the end of a short job is noticed soon.
Duration poll_period(Duration age) {
  return std::min<Duration>(kPollPeriod, kFirstPollPeriod + age / 8);
}

// stop_wait: null unless the job was asked to stop. feed: null if nothing is shown.
Status follow_until(Context& context, ClusterSession& session, const std::string& job,
                    StopWait* stop_wait, JobSummary& summary, JobFeed* feed,
                    TimePoint deadline = TimePoint::max()) {
  const InterruptsAnswered answered(context);
  LossWatch loss(context, job, summary);
  ShortPatience patience(context, session);
  const bool is_asked = stop_wait != nullptr;
  const TimePoint begun = context.clock.now();
  TimePoint last_answer = begun;
  std::string last_note;  // the last note about a command that starts the job again
  for (;;) {
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    patience.apply();
    auto processes = session.processes(job);
    const auto now = context.clock.now();
    const Duration silence_max = loss.patience(is_asked);
    if (session.unreachable() == 0) {
      last_answer = now;
      loss.end_wait();
    } else if (now - last_answer > silence_max && loss.knows_standstill()) {
      summary.stands_still = loss.stands_still();
      context.pause(kPeersEndPause);
      return silence_error(session, job, session.processes(job), summary.stands_still);
    } else {
      loss.tell_wait(session, now - last_answer, silence_max);
      reconnect_soon(context, session);
      processes = session.processes(job);  // includes a node that answers again
      if (session.unreachable() > 0) {
        if (auto ended = end_of_nodes(context, job)) return *std::move(ended);
      }
    }
    loss.look_again(session);
    loss.look(session, processes);
    if (feed != nullptr) feed->poll(processes);
    if (stop_wait != nullptr) PADDLE_TRY_STATUS(stop_wait->look(session, processes));
    auto end = end_of(session, job, processes, is_asked, loss, summary);
    if (end && !*end && (!is_asked || end->error().code != Errc::kResumable)) {
      // The node with the first cause may have answered before its process died, so asks all nodes
      // again.
      context.pause(kSettlePause);
      reconnect_soon(context, session);
    }
    if (end && feed == nullptr) {
      // A command that only reads takes no claim. It checks again when `restart` would have started
      // the job.
      if (!*end && end->error().code == Errc::kResumable) context.pause(kRestartPause);
      processes = session.processes(job);
      loss.look(session, processes);
      end = end_of(session, job, processes, is_asked, loss, summary);
    } else if (end) {
      PADDLE_TRY(end, end_under_claim(context, session, job, processes, is_asked, loss, summary,
                                      last_note));
    }
    if (end) {
      if (feed != nullptr) feed->poll(processes);
      context.console.end_progress();
      return *std::move(end);
    }
    if (now > deadline)
      return Error{Errc::kUnreachable, fmt::format("{} still runs at the end of --timeout", job),
                   "follow it: paddlectl attach --job " + job};
    context.pause(poll_period(now - begun));
  }
}

}  // namespace

bool waits_in_vain(const std::vector<ProcessOnNode>& processes) {
  const Paces paces = paces_of(processes);
  return std::ranges::any_of(processes, [&](const ProcessOnNode& process) {
    return is_stopped_unbegun(process.status) && std::ranges::any_of(paces, [&](const auto& pace) {
             return pace.first.starts_with("trainer-") &&
                    std::ranges::count(pace.second.waits_for, process.status.name) > 0;
           });
  });
}

std::string describe_wait(const std::string& node, Duration waited) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
  return fmt::format("waiting for node {}, which has been gone for {}", node,
                     span_text(1000 * seconds));
}

std::string describe_unsaved(const std::vector<ProcessOnNode>& processes, const std::string& job) {
  const ProcessOnNode* first = nullptr;
  for (const ProcessOnNode& process : processes) {
    const bool is_trainer = !is_pserver(process.status);
    if (!process.status.stopped || is_resumable(process.status) || ended_well(process.status))
      continue;
    if (first == nullptr || (is_trainer && is_pserver(first->status))) first = &process;
  }
  if (first == nullptr) return job + " was ended by another terminal";
  const std::string stopper = stopper_of(first->status);
  if (first->status.stop_ordered)
    return fmt::format("{} was ended by {}, without saving a snapshot", job, stopper);
  if (is_stopped_unbegun(first->status))
    return fmt::format("{} was stopped by {} before {} had begun", job, stopper,
                       first->status.name);
  return fmt::format("{} was asked to stop by {}, and a second signal ended {} before it was saved",
                     job, stopper, first->status.name);
}

Status ask_job_to_stop(ClusterSession& session, const std::string& job) {
  session.forgive_absent();
  const auto processes = session.processes(job);
  return session.each([&](Member& member) -> Status {
    std::vector<std::string> names;
    for (const ProcessOnNode& process : processes) {
      const bool is_here = &session.members()[process.member] == &member;
      if (is_here && is_running_trainer(process)) names.push_back(process.status.name);
    }
    return names.empty() ? Status() : member.client->ask_to_stop(job, names);
  });
}

Status wait_for_trainers(Context& context, ClusterSession& session, const std::string& job) {
  const InterruptsAnswered answered(context);
  StopWait stop_wait(context, job,
                     fmt::format("; paddlectl stop --now {} ends it immediately", job));
  for (;;) {
    const auto processes = session.processes(job);
    if (std::ranges::none_of(processes, is_running_trainer) || waits_in_vain(processes)) return {};
    if (context.interrupted()) {
      return Error{Errc::kInterrupted, "no longer waiting: " + job + " is still stopping", ""};
    }
    if (auto waited = stop_wait.look(session, processes); !waited) {
      Error error = std::move(waited).error();
      error.hint = "end it immediately: paddlectl stop --now --job " + job;
      return error;
    }
    context.pause(kPollPeriod);
  }
}

Status stop_job(ClusterSession& session, const std::string& job) {
  session.forgive_absent();
  return session.each([&](Member& member) {
    Status stopped = member.client->stop(job, {}, kStopGrace);
    // Without its client, reconnect() connects the node again.
    if (!stopped && stopped.error().code == Errc::kUnreachable) member.client.reset();
    return stopped;
  });
}

Status follow_job(Context& context, ClusterSession& session, const std::string& job,
                  JobSummary& summary, std::size_t past_tests) {
  JobFeed feed(context, session, summary, past_tests);
  return follow_until(context, session, job, nullptr, summary, &feed);
}

Status wait_for_end(Context& context, ClusterSession& session, const std::string& job,
                    TimePoint deadline) {
  JobSummary summary;
  return follow_until(context, session, job, nullptr, summary, nullptr, deadline);
}

Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job,
                      JobSummary& summary) {
  const InterruptsAnswered answered(context);  // before another Ctrl-C can arrive
  context.take_interrupt();
  context.console.end_progress();
  context.console.note("asking the job to stop and to save; Ctrl-C again ends it immediately");
  PADDLE_TRY(const Claimed claimed,
             claim_job(context, session, job, {.command = JobCommand::kStop, .patient = false}));
  if (claimed.refused_by &&
      order_of(claimed.refused_by->command, JobCommand::kStop) == Order::kWait)
    PADDLE_TRY_STATUS(claim_or_refuse(context, session, job, {.command = JobCommand::kStop}));
  // If another command stops the job, it has asked already; a trainer that was asked is not asked
  // again.
  PADDLE_TRY_STATUS(ask_job_to_stop(session, job));
  StopWait stop_wait(context, job, "");
  JobFeed feed(context, session, summary);
  return follow_until(context, session, job, &stop_wait, summary, &feed);
}

}  // namespace paddle::cli
