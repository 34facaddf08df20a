#include "cli/sweep/sweep_run.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/job/end_of_job.h"
#include "cli/job/job_claim.h"
#include "cli/job/results.h"
#include "cli/report/report.h"
#include "cli/sweep/outcome.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/job_state.h"
#include "cli/watch/process_state.h"
#include "cli/watch/progress.h"

namespace paddle::cli {
namespace {

constexpr Duration kLookPeriod = std::chrono::milliseconds(500);
constexpr Duration kSilenceMax = std::chrono::minutes(10);
// After a trial was ended by another command or has failed. A teardown of the nodes ends trials
// before it removes the nodes' folders, and a start would make these anew.
constexpr Duration kPauseAfterEnd = std::chrono::seconds(2);
constexpr int kChunksMax = 64;  // of metrics in one look; a node may write without an end

// While this object exists, Ctrl-C prints nothing: the sweep prints its own note.
class OwnInterruptNote {
 public:
  explicit OwnInterruptNote(Context& context) : context_(context) { set(false); }
  ~OwnInterruptNote() { set(true); }
  OwnInterruptNote(const OwnInterruptNote&) = delete;
  OwnInterruptNote& operator=(const OwnInterruptNote&) = delete;

 private:
  void set(bool wanted) const {
    if (context_.note_interrupts) context_.note_interrupts(wanted);
  }
  Context& context_;
};

// Collects the notes of its scope.
class HeldNotes {
 public:
  explicit HeldNotes(Console& console) : console_(console) { console_.divert_notes(&notes_); }
  ~HeldNotes() { console_.divert_notes(nullptr); }
  HeldNotes(const HeldNotes&) = delete;
  HeldNotes& operator=(const HeldNotes&) = delete;

  void show() {
    end();
    for (const std::string& note : notes_) console_.note(note);
    notes_.clear();
  }
  // Prints notes again, without those that were collected.
  void end() { console_.divert_notes(nullptr); }
  // The first note that begins with these words; "" if there is none.
  std::string find(std::string_view words) const {
    const auto found = std::ranges::find_if(
        notes_, [&](const std::string& note) { return note.starts_with(words); });
    return found == notes_.end() ? "" : *found;
  }

 private:
  Console& console_;
  std::vector<std::string> notes_;
};

// An error's message without the last lines of a log.
std::string cause_in(const std::string& message) {
  return message.substr(0, std::min(message.find("; last lines:"), message.find('\n')));
}

// Whether the error concerns the nodes rather than a trial.
bool is_of_nodes(Errc code) {
  return code == Errc::kUnreachable || code == Errc::kAuth || code == Errc::kVersion ||
         code == Errc::kResource || code == Errc::kInterrupted;
}

using ByJob = std::map<std::string, std::vector<ProcessOnNode>>;

ByJob by_job(std::vector<ProcessOnNode> processes) {
  ByJob jobs;
  for (ProcessOnNode& process : processes) jobs[process.status.job].push_back(std::move(process));
  for (auto& [job, of_job] : jobs) leave_out_former_runs(of_job);
  return jobs;
}

}  // namespace

SweepRun::SweepRun(Context& context, ClusterSession& session, const Sweep& sweep, SweepPlan plan,
                   std::vector<Trial> trials, StartTrial start)
    : context_(context),
      session_(session),
      sweep_(sweep),
      plan_(std::move(plan)),
      trials_(std::move(trials)),
      start_(std::move(start)),
      halving_(sweep.reduction, sweep.passes_min) {}

std::size_t SweepRun::count(TrialState state) const {
  return static_cast<std::size_t>(std::ranges::count(trials_, state, &Trial::state));
}

Status SweepRun::run() {
  const OwnInterruptNote note(context_);
  PADDLE_TRY_STATUS(find_trials());
  // The state of a trial that was found follows from two looks.
  for (int i = 0; i < 2 && count(TrialState::kRunning) > 0; ++i) {
    PADDLE_TRY_STATUS(look());
    if (i == 0) context_.pause(kLookPeriod);
  }
  for (;;) {
    if (context_.interrupted()) return stop_all();
    PADDLE_TRY_STATUS(start_next());
    if (context_.interrupted()) return stop_all();
    if (count(TrialState::kRunning) + count(TrialState::kWaiting) == 0) break;
    show_progress();
    context_.pause(kLookPeriod);
    PADDLE_TRY_STATUS(look());
  }
  context_.console.end_progress();
  for (Trial& trial : trials_) {
    if (!trial.result && trial.state != TrialState::kFailed) PADDLE_TRY_STATUS(collect(trial));
  }
  return {};
}

Status SweepRun::find_trials() {
  const ByJob jobs = by_job(session_.processes(""));
  PADDLE_TRY_STATUS(session_.all_well());
  std::size_t found = 0;
  for (Trial& trial : trials_) {
    trial.values.emplace(plan_.figure, plan_.source);
    const auto job = jobs.find(trial.job);
    if (job == jobs.end()) continue;
    ++found;
    trial.is_found = true;
    trial.state = TrialState::kRunning;
    PADDLE_TRY_STATUS(check_same(trial, job->second));
    const ProcessOnNode* const leader = leader_among(job->second);
    trial.is_pruned = leader != nullptr && is_marked_pruned(session_, *leader);
  }
  if (found > 0)
    context_.console.note(
        fmt::format("{} of {} trials are on the nodes already: they are not "
                    "started again",
                    found, trials_.size()));
  return {};
}

Status SweepRun::check_same(const Trial& trial, const std::vector<ProcessOnNode>& processes) {
  const ProcessOnNode* const leader = leader_among(processes);
  JobSettings now = plan_.settings;
  now.overrides = merged_overrides(now.overrides, trial.settings);
  // Without a leader its start was broken off, or is going on.
  return check_same_trial(session_, leader == nullptr ? processes.front() : *leader, sweep_.tag(),
                          std::move(now));
}

Status SweepRun::check_nodes() {
  const auto gone = std::ranges::find_if(session_.members(), &Member::absent);
  if (gone != session_.members().end()) {
    return Error{Errc::kInterrupted,
                 fmt::format("node {} has no folder of this cluster any more, as after paddlectl "
                             "teardown at another terminal",
                             gone->spec.name),
                 "prepare the nodes with paddlectl up, then run the same command again"};
  }
  if (session_.unreachable() == 0) {
    if (silent_since_) context_.console.note("all nodes answer again");
    silent_since_.reset();
    return {};
  }
  const Status reached = session_.all_well();
  const std::string text = reached ? "a node does not answer" : reached.error().message;
  const TimePoint now = context_.clock.now();
  if (!silent_since_) {
    silent_since_ = now;
    context_.console.note(text + "; no trial is started until it answers");
  }
  const Duration asked = context_.limits.timeout;
  if (now - *silent_since_ < (asked > Duration() ? asked : kSilenceMax)) return {};
  return Error{Errc::kUnreachable, text + "\ntrials that run elsewhere go on",
               "once the nodes answer, run the same command again"};
}

Status SweepRun::look() {
  auto processes = session_.processes("");
  if (session_.unreachable() > 0) {
    session_.reconnect(context_);
    processes = session_.processes("");
  }
  PADDLE_TRY_STATUS(check_nodes());
  const ByJob jobs = by_job(std::move(processes));
  static const std::vector<ProcessOnNode> kNone;
  const auto of = [&](const Trial& trial) -> const std::vector<ProcessOnNode>& {
    const auto found = jobs.find(trial.job);
    return found == jobs.end() ? kNone : found->second;
  };
  std::vector<Trial*> running;
  for (Trial& trial : trials_) {
    if (trial.state == TrialState::kRunning) running.push_back(&trial);
  }
  for (Trial* const trial : running) read_metrics_of(*trial, of(*trial));
  judge_values();
  for (Trial* const trial : running) look_at(*trial, of(*trial));
  return {};
}

void SweepRun::read_metrics_of(Trial& trial, const std::vector<ProcessOnNode>& processes) {
  const ProcessOnNode* const leader = leader_among(processes);
  if (sweep_.method != SweepMethod::kHalving || leader == nullptr) return;
  const Member& member = session_.members()[leader->member];
  if (!member.client) return;
  if (!trial.metrics) trial.metrics.emplace(metrics_path(leader->status.log));
  for (int chunk = 0; chunk < kChunksMax; ++chunk) {
    const auto lines = trial.metrics->poll(*member.client);
    if (!lines) return;  // the file may not be there yet
    for (const LogLine& line : *lines) {
      const auto parsed = parse_metrics(line.text);
      const auto value = parsed ? trial.values->take(*parsed) : std::nullopt;
      if (value) new_values_.push_back({*value, trial.number});
    }
    if (trial.metrics->at_end()) return;
  }
}

// The order of values that arrive together is that of their times, so that a command that reads all
// of them at once decides like one that watched.
void SweepRun::judge_values() {
  std::ranges::sort(new_values_, {}, [](const NewValue& one) {
    return std::tuple(one.value.unix_ms, one.trial, one.value.passes);
  });
  for (const auto& [value, number] : std::exchange(new_values_, {})) {
    Trial& trial = trials_[number];
    const bool goes_on = halving_.goes_on(number, value.passes, value.rank);
    const bool is_last = trial.passes > 0 && value.passes >= trial.passes;
    if (!goes_on && !is_last) trial.is_pruned = true;
  }
}

void SweepRun::ask_to_stop(Trial& trial) {
  if (trial.asked_at) return;
  trial.asked_at = context_.clock.now();
  (void)claim_job(context_, session_, trial.job, {.command = JobCommand::kStop, .patient = false});
  (void)ask_job_to_stop(session_, trial.job);
}

void SweepRun::look_at(Trial& trial, const std::vector<ProcessOnNode>& processes) {
  TrialState seen = trial_state(session_, processes);
  if (seen != TrialState::kDone && session_.unreachable() > 0) return;  // a node may be the cause
  if (seen == TrialState::kRunning) {
    trial.is_found = false;
    if (trial.is_pruned && !trial.asked_at) {
      // The mark comes first: a command that is killed before the trial has stopped leaves one that
      // the next command stops, and not one that it continues.
      const ProcessOnNode* const leader = leader_among(processes);
      if (leader == nullptr || !mark_pruned(session_, *leader)) return;
      ask_to_stop(trial);
    }
    const bool is_late =
        trial.asked_at && context_.clock.now() - *trial.asked_at > kCleanStopDeadline;
    if (trial.asked_at && (is_late || waits_in_vain(processes)))
      (void)stop_job(session_, trial.job);
    std::vector<remote::Progress> trainers;
    for (const ProcessOnNode& process : processes) {
      if (!is_pserver(process.status) && process.status.progress)
        trainers.push_back(*process.status.progress);
    }
    const auto progress = job_progress(trainers);
    progress_[trial.number] =
        progress ? "pass " + pass_text(progress->pass, progress->passes) : "starts";
    show_stall(trial, processes);
  }
  if (std::exchange(trial.seen, seen) != seen || seen == TrialState::kRunning) return;
  finish(trial, processes);
}

// A trial that hangs keeps its place among those that run, so the user has to know.
void SweepRun::show_stall(Trial& trial, const std::vector<ProcessOnNode>& processes) {
  const std::vector<std::string> stalled = stalled_processes(processes);
  if (stalled.empty()) return;
  progress_[trial.number] += fmt::format(" stalled: {}", fmt::join(stalled, ", "));
  if (std::exchange(trial.was_stalled, true)) return;
  context_.console.note(fmt::format(
      "{} is stalled: {} makes no progress, and the sweep waits for it; see paddlectl status {}; "
      "to go on without it: paddlectl stop --now {}",
      trial.job, fmt::join(stalled, ", "), trial.job, trial.job));
}

void SweepRun::finish(Trial& trial, const std::vector<ProcessOnNode>& processes) {
  progress_.erase(trial.number);
  trial.state = trial.seen;
  if (trial.state == TrialState::kStopped && trial.is_pruned) {
    const ProcessOnNode* const leader = leader_among(processes);
    if (leader != nullptr && !trial.asked_at) (void)mark_pruned(session_, *leader);
    trial.state = TrialState::kPruned;
  }
  const bool is_to_go_on = trial.is_found && !is_stopping_;
  if (trial.state == TrialState::kStopped && is_to_go_on) {
    trial.state = TrialState::kWaiting;
    trial.is_resumed = true;
    return;
  }
  if (trial.state == TrialState::kWaiting && is_to_go_on) return;  // its start was broken off
  if (trial.state != TrialState::kDone && !trial.asked_at && !trial.is_found)
    no_start_before_ = context_.clock.now() + kPauseAfterEnd;
  trial.is_on_nodes = !processes.empty();
  if (trial.state == TrialState::kWaiting) {
    trial.state = TrialState::kFailed;
    trial.why = processes.empty() ? "it is no longer on the nodes, as after paddlectl rm"
                                  : "some of its processes were never started, or are lost";
  }
  const ProcessOnNode* const failed = first_failure(processes);
  if (trial.state == TrialState::kFailed && failed != nullptr)
    trial.why = cause_in(failure_error(session_, *failed).message);
  if (std::ranges::any_of(processes, is_running, &ProcessOnNode::status))
    (void)stop_job(session_, trial.job);
  if (!processes.empty() && (trial.state != TrialState::kStopped || !is_stopping_)) {
    if (const Status collected = collect(trial); !collected)
      context_.console.note(fmt::format("{}: {}", trial.job, collected.error().message));
  }
  release_claim(session_, trial.job);
  if (!trial.is_found) announce(trial);
}

Status SweepRun::collect(Trial& trial) {
  const std::string folder = plan_.output + "/" + trial.job;
  PADDLE_TRY_STATUS(
      check_output_folder(context_, plan_.output, trial.job, "choose another --output"));
  auto record = read_job_record(folder, trial.job);
  if (!record || !is_whole_record(folder, *record) ||
      !is_record_of(*record, session_.processes(trial.job))) {
    HeldNotes held(context_.console);
    PADDLE_TRY_STATUS(choose_job(session_, trial.job));
    PADDLE_TRY(const FetchStats fetched,
               fetch_results(context_, session_, trial.job, plan_.output, std::nullopt));
    PADDLE_TRY(const ReportFiles report,
               collect_report(context_, session_, trial.job, plan_.output));
    PADDLE_TRY(record, read_job_record(folder, trial.job));
  }
  trial.result = compared_job(*record);
  return {};
}

void SweepRun::announce(const Trial& trial) {
  const EvaluatorCurves* const of = trial.result ? trial.result->evaluator(plan_.figure) : nullptr;
  std::string text;
  if (of != nullptr && of->best)
    text = fmt::format(": {} {:.5g} in pass {}", plan_.figure, of->best->value, of->best->pass + 1);
  if (!trial.why.empty()) text = ": " + trial.why;
  context_.console.note(fmt::format("{} {}{}", trial.job, name_of(trial.state), text));
  if (!context_.console.json()) return;
  const bool has_value = of != nullptr && of->best;
  context_.console.json_line(
      Json::object({{"job", trial.job},
                    {"state", name_of(trial.state)},
                    {"settings", Json::list({trial.settings.begin(), trial.settings.end()})},
                    {"figure", plan_.figure},
                    {"value", has_value ? Json::number(of->best->value) : Json()},
                    {"pass", has_value ? Json(of->best->pass) : Json()},
                    {"cause", trial.why.empty() ? Json() : Json(trial.why)}}));
}

Status SweepRun::start_next() {
  if (no_start_before_ && context_.clock.now() < *no_start_before_) return {};
  while (count(TrialState::kRunning) < sweep_.at_once && session_.unreachable() == 0) {
    const auto next = std::ranges::find(trials_, TrialState::kWaiting, &Trial::state);
    if (next == trials_.end() || context_.interrupted()) return {};
    PADDLE_TRY_STATUS(start(*next));
  }
  return {};
}

Result<bool> SweepRun::is_begun(Trial& trial) {
  using enum TrialState;
  const auto processes = session_.processes(trial.job);
  if (processes.empty() || session_.unreachable() > 0) return session_.unreachable() > 0;
  PADDLE_TRY_STATUS(check_same(trial, processes));
  const TrialState state = trial_state(session_, processes);
  const ProcessOnNode* const leader = leader_among(processes);
  const bool is_marked = leader != nullptr && is_marked_pruned(session_, *leader);
  if (state == kWaiting || (state == kStopped && !is_marked)) {
    trial.is_resumed = trial.is_resumed || state == kStopped;
    return false;
  }
  trial.is_pruned = is_marked;
  trial.state = trial.seen = kRunning;  // looks will show how it ended
  trial.is_found = false;
  context_.console.note(trial.job + ": another command has started it");
  return true;
}

Status SweepRun::start(Trial& trial) {
  PADDLE_TRY(bool begun, is_begun(trial));
  if (begun) return {};
  HeldNotes held(context_.console);
  Status started = start_(trial);
  if (!started && started.error().code == Errc::kUsage) {
    const bool was_resumed = trial.is_resumed;
    held.end();
    PADDLE_TRY(begun, is_begun(trial));
    if (begun) return {};
    if (!was_resumed && !session_.processes(trial.job).empty()) {
      trial.is_resumed = true;  // a start that was broken off has left snapshots
      started = start_(trial);
    }
  }
  if (!started && context_.interrupted()) return {};
  if (!started && is_of_nodes(started.error().code)) {
    held.show();
    Error error = started.error();
    error.message = trial.job + " was not started: " + error.message;
    return error;
  }
  const std::string pushed = held.find("pushed ");
  if (has_started_ && started) {
    held.end();
  } else {
    held.show();
  }
  has_started_ = true;
  trial.state = TrialState::kRunning;
  trial.seen = TrialState::kRunning;
  trial.is_found = false;
  if (!started) {
    trial.state = TrialState::kFailed;
    trial.is_on_nodes = !session_.processes(trial.job).empty();
    trial.why = cause_in(started.error().message);
    announce(trial);
    return {};
  }
  context_.console.note(fmt::format("{} {}: {}{}", trial.job,
                                    trial.is_resumed ? "goes on" : "started", trial.text(),
                                    pushed.empty() ? "" : "; " + pushed));
  return {};
}

Status SweepRun::stop_all() {
  is_stopping_ = true;
  if (context_.take_interrupt) context_.take_interrupt();
  context_.console.end_progress();
  PADDLE_TRY_STATUS(look());  // a start may have been broken off
  std::vector<std::string> names;
  for (Trial& trial : trials_) {
    if (trial.state != TrialState::kRunning) continue;
    names.push_back(trial.job);
    ask_to_stop(trial);
  }
  if (!names.empty())
    context_.console.note(
        fmt::format("asking {} to stop and to save; Ctrl-C again ends {} "
                    "immediately",
                    fmt::join(names, ", "), names.size() == 1 ? "it" : "them"));
  bool is_at_once = false;
  while (count(TrialState::kRunning) > 0) {
    if (context_.interrupted()) {
      is_at_once = true;
      if (context_.take_interrupt) context_.take_interrupt();
      for (const Trial& trial : trials_) {
        if (trial.state == TrialState::kRunning) PADDLE_TRY_STATUS(stop_job(session_, trial.job));
      }
    }
    context_.pause(kLookPeriod);
    PADDLE_TRY_STATUS(look());
  }
  const std::size_t ended =
      trials_.size() - count(TrialState::kWaiting) - count(TrialState::kStopped);
  return Error{is_at_once ? Errc::kInterrupted : Errc::kResumable,
               fmt::format("interrupted: {} of {} trials have ended", ended, trials_.size()), ""};
}

void SweepRun::show_progress() {
  std::vector<std::string> running;
  for (const Trial& trial : trials_) {
    if (trial.state != TrialState::kRunning) continue;
    const auto progress = progress_.find(trial.number);
    running.push_back(
        fmt::format("{} {}", trial.job, progress == progress_.end() ? "starts" : progress->second));
  }
  const std::size_t left = running.size() + count(TrialState::kWaiting);
  const auto ranked = ranked_trials(trials_, plan_.figure);
  const auto best = value_of(*ranked.front(), plan_.figure, any_has_held_out(ranked, plan_.figure));
  const std::string best_text =
      best ? fmt::format("; best {} {:.5g} of {}", plan_.figure, best->value, ranked.front()->job)
           : "";
  context_.console.progress(context_.clock.now(),
                            fmt::format("{} of {} trials ended{}; {}", trials_.size() - left,
                                        trials_.size(), best_text, fmt::join(running, ", ")));
}

}  // namespace paddle::cli
