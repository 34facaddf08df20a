#include "cli/job/end_of_job.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/watch/broken_start.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/pace.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr auto kStopGrace = std::chrono::seconds(5);
constexpr auto kPollPeriod = std::chrono::milliseconds(500);
// Gives the cause of a first failure time to be recorded on its own node.
constexpr auto kSettlePause = std::chrono::milliseconds(500);
// Longer than a job has no running process while `restart` starts it again.
constexpr auto kRestartPause = std::chrono::seconds(3);
constexpr auto kNodeSilenceMax = std::chrono::seconds(30);
// Processes notice the same silence after about as long, and then end.
constexpr auto kPeersEndPause = std::chrono::seconds(3);
constexpr std::size_t kNamesMax = 4;

// While it lives, Ctrl-C prints nothing: the loop in this scope looks for it every kPollPeriod.
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

// A stop ended it at once: it had nothing to save yet.
bool is_stopped_unbegun(const remote::ProcessStatus& status) {
  return !is_pserver(status) && status.reports && !status.progress && status.stopped &&
         !is_running(status);
}

// Whether a running trainer waits for one that will not come, as no round goes on without it.
bool waits_in_vain(const std::vector<ProcessOnNode>& processes) {
  const Paces paces = paces_of(processes);
  return std::ranges::any_of(processes, [&](const ProcessOnNode& process) {
    return is_stopped_unbegun(process.status) && std::ranges::any_of(paces, [&](const auto& pace) {
             return pace.first.starts_with("trainer-") &&
                    std::ranges::count(pace.second.waits_for, process.status.name) > 0;
           });
  });
}

// Nothing while a trainer runs; else whether all of them reached the end of the job.
std::optional<bool> ended(const std::vector<ProcessOnNode>& processes) {
  std::optional<bool> finished;
  for (const ProcessOnNode& process : processes) {
    if (is_pserver(process.status)) continue;
    if (!ended_well(process.status) && !is_resumable(process.status)) return std::nullopt;
    finished = finished.value_or(true) && !is_resumable(process.status);
  }
  return finished;
}

// Whom a stop waits for, told when it changes; an error once nothing has moved for too long.
class StopWait {
 public:
  // remedy: what ends the job immediately, or "" where that was said.
  StopWait(Context& context, std::string job, std::string_view remedy)
      : context_(context),
        job_(std::move(job)),
        remedy_(remedy),
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
      // A program of the user's own tells nothing before its end.
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

  // Those who hold the stop up: who hangs, or else whom others wait for, or else all that run.
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
  std::string_view remedy_;
  TimePoint begun_at_, moved_at_;
  std::string mark_, told_;
};

// As first_failure, but a pserver's failure counts where no trainer is seen.
const ProcessOnNode* failure_seen(const std::vector<ProcessOnNode>& processes) {
  const auto failed = std::ranges::find_if(processes, [](const ProcessOnNode& process) {
    return !ended_well(process.status) && !is_resumable(process.status);
  });
  const bool sees_trainer = !std::ranges::all_of(processes, is_pserver, &ProcessOnNode::status);
  if (sees_trainer || failed == processes.end()) return first_failure(processes);
  return &*failed;
}

// Tells of the job what the nodes that answer know, and no more.
Error silence_error(ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes) {
  auto silent = session.all_well();
  Error error =
      silent ? Error{Errc::kUnreachable, "a node is silent", ""} : std::move(silent).error();
  error.code = Errc::kUnreachable;
  const auto running = static_cast<std::size_t>(
      std::ranges::count_if(processes, is_running, &ProcessOnNode::status));
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
      "once the node answers, paddlectl status --job {} shows what became of the rest", job);
  if (processes.empty()) {
    error.message +=
        fmt::format("\nnothing is known of {}: it may go on without this terminal", job);
    error.hint = fmt::format(
        "once a node answers, paddlectl status --job {0} shows what became of it, paddlectl attach "
        "--job {0} follows it",
        job);
  } else if (const ProcessOnNode* const first = failure_seen(processes)) {
    error.message += fmt::format("\nall of {} has ended on the nodes that answer: {}", job,
                                 failure_error(session, *first).message);
  } else {
    error.message += fmt::format("\nall of {} has ended well on the nodes that answer", job);
  }
  return error;
}

Error stopped_unbegun(const std::string& job) {
  return {Errc::kInterrupted, job + " was stopped before all its trainers had begun", ""};
}

// A stop, teardown or rm from another terminal; or a stop that was asked for here, and came early.
std::optional<Error> ended_elsewhere(ClusterSession& session, const std::string& job,
                                     const std::vector<ProcessOnNode>& processes, bool is_asked) {
  const bool is_removed = std::ranges::any_of(session.members(), &Member::absent);
  if ((processes.empty() && session.unreachable() == 0) ||
      (is_removed && is_consequence(first_failure(processes)))) {
    return Error{Errc::kInterrupted,
                 fmt::format("job '{}' was removed from its nodes, by paddlectl teardown or rm "
                             "at another terminal",
                             job),
                 ""};
  }
  const bool is_stopped = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return process.status.stopped; });
  if (!is_stopped || !is_consequence(first_failure(processes))) return std::nullopt;
  if (is_asked && std::ranges::any_of(processes, is_stopped_unbegun, &ProcessOnNode::status))
    return stopped_unbegun(job);
  return Error{Errc::kInterrupted,
               fmt::format("{} was stopped by paddlectl stop --now at another terminal", job), ""};
}

// The end that the job has come to; nothing while it goes on.
std::optional<Status> end_of(ClusterSession& session, const std::string& job,
                             const std::vector<ProcessOnNode>& processes, bool is_asked) {
  if (auto elsewhere = ended_elsewhere(session, job, processes, is_asked))
    return *std::move(elsewhere);
  if (waits_in_vain(processes)) return stopped_unbegun(job);
  if (const ProcessOnNode* first = first_failure(processes)) return failure_error(session, *first);
  if (const auto broken = broken_start(session, processes))
    return Error{Errc::kFailed, describe(*broken, job), ""};
  const std::optional<bool> finished = ended(processes);
  if (!finished || session.unreachable() > 0) return std::nullopt;
  if (*finished) return Status();
  return Error{Errc::kResumable, job + " stopped before its end", ""};
}

// stop_wait: null unless the job was asked to stop.
Status follow_until(Context& context, ClusterSession& session, const std::string& job,
                    StopWait* stop_wait, JobSummary& summary, std::size_t past_tests = SIZE_MAX) {
  const InterruptsAnswered answered(context);
  JobFeed feed(context, session, summary, past_tests);
  TimePoint heard = context.clock.now();
  bool looked_again = false;
  for (;;) {
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    auto processes = session.processes(job);
    const auto now = context.clock.now();
    if (session.unreachable() == 0) {
      heard = now;
    } else if (now - heard > kNodeSilenceMax) {
      context.pause(kPeersEndPause);
      return silence_error(session, job, session.processes(job));
    } else {
      session.reconnect(context);
      processes = session.processes(job);  // with those of a node that answers again
    }
    feed.poll(processes);
    if (stop_wait != nullptr) PADDLE_TRY_STATUS(stop_wait->look(session, processes));
    auto end = end_of(session, job, processes, stop_wait != nullptr);
    const bool is_resumable = end && !*end && end->error().code == Errc::kResumable;
    if (end && !*end && (!is_resumable || (stop_wait == nullptr && !looked_again))) {
      // The node of the first cause may have answered before it died: all are asked once more.
      // `restart` stops a job too, and starts it again at once.
      context.pause(is_resumable ? Duration(kRestartPause) : Duration(kSettlePause));
      looked_again = true;
      session.reconnect(context);
      processes = session.processes(job);
      end = end_of(session, job, processes, stop_wait != nullptr);
    }
    if (end) {
      feed.poll(processes);
      context.console.end_progress();
      return *std::move(end);
    }
    looked_again = false;
    context.pause(kPollPeriod);
  }
}

}  // namespace

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
  StopWait stop_wait(context, job, "; paddlectl stop --now ends it immediately");
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
    // Without its client, reconnect() connects the node anew.
    if (!stopped && stopped.error().code == Errc::kUnreachable) member.client.reset();
    return stopped;
  });
}

Status follow_job(Context& context, ClusterSession& session, const std::string& job,
                  JobSummary& summary, std::size_t past_tests) {
  return follow_until(context, session, job, nullptr, summary, past_tests);
}

Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job,
                      JobSummary& summary) {
  const InterruptsAnswered answered(context);  // before the next one can come
  context.take_interrupt();
  context.console.end_progress();
  context.console.note("asking the job to stop and to save; Ctrl-C again ends it immediately");
  PADDLE_TRY_STATUS(ask_job_to_stop(session, job));
  StopWait stop_wait(context, job, "");
  return follow_until(context, session, job, &stop_wait, summary);
}

}  // namespace paddle::cli
