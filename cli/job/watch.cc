#include "cli/job/watch.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "cli/job/stop.h"

namespace paddle::cli {
namespace {

constexpr auto kPollPeriod = std::chrono::seconds(1);
// After a first failure, until what caused it is recorded on its own node too.
constexpr auto kSettlePause = std::chrono::milliseconds(500);
// Longer than a restarted job is without a process that runs.
constexpr auto kRestartPause = std::chrono::seconds(3);
// An order to stop may be recorded this much after the exits it caused; less than kSettlePause,
// after which the rest of a failed job is stopped.
constexpr std::int64_t kStopLagMs = 400;
constexpr auto kNodeSilenceMax = std::chrono::seconds(30);
bool running(const remote::ProcessStatus& status) {
  return status.state == remote::ProcessState::kRunning;
}

bool ended_well(const remote::ProcessStatus& status) {
  return status.state == remote::ProcessState::kExited && status.exit_code == 0;
}

// As asked, with a snapshot to go on from.
bool can_go_on(const remote::ProcessStatus& status) {
  return status.state == remote::ProcessState::kExited &&
         status.exit_code == static_cast<int>(Errc::kResumable);
}

// Ended because somebody said so: us, as its node noted, or a plain kill.
bool was_stopped(const remote::ProcessStatus& status) {
  return status.stopped ||
         (status.state == remote::ProcessState::kKilled && status.signal == SIGTERM) ||
         (status.state == remote::ProcessState::kExited &&
          status.exit_code == static_cast<int>(Errc::kInterrupted));
}

// Sorts causes before consequences. What a process did itself comes before an order to stop and a
// lost peer, whenever it was: the clocks of nodes differ. Then the earlier end.
std::pair<bool, std::int64_t> order_of_blame(const remote::ProcessStatus& status) {
  const bool lost_peer = status.state == remote::ProcessState::kExited &&
                         status.exit_code == static_cast<int>(Errc::kUnreachable);
  const bool stopped = was_stopped(status);
  // A record without an end time is not known to be earlier than any other.
  const std::int64_t ended =
      status.ended_unix_ms > 0 ? status.ended_unix_ms : std::numeric_limits<std::int64_t>::max();
  return {stopped || lost_peer, stopped ? ended - kStopLagMs : ended};
}

// Trainer 0's metrics: the live line and a line per test.
class ProgressFeed {
 public:
  void poll(Context& context, ClusterSession& session,
            const std::vector<ProcessOnNode>& processes) {
    const auto leader = std::ranges::find(processes, "trainer-0",
                                          [](const ProcessOnNode& p) { return p.status.name; });
    if (leader == processes.end()) return;
    if (!reader_) reader_.emplace(metrics_path(leader->status.log));
    Member& member = session.members()[leader->member];
    do {
      if (!member.client) return;
      auto lines = reader_->poll(*member.client);
      if (!lines) return;  // not there yet, or the node is lost: processes() notices that
      for (const LogLine& line : *lines) show(context, line.text);
    } while (!reader_->at_end());
  }

 private:
  void show(Context& context, const std::string& line) {
    const auto point = parse_metrics(line);
    if (!point) return;
    if (point->kind == "test") {
      if (!context.console.json()) context.console.result(describe(*point));
    } else if (point->kind == "train" || point->kind == "pass") {
      context.console.progress(context.clock.now(), describe(*point));
    }
  }

  std::optional<LogReader> reader_;
};

}  // namespace

bool is_pserver(const remote::ProcessStatus& status) {
  return status.name.starts_with("pserver-");
}

std::string describe_state(const remote::ProcessStatus& status) {
  if (status.stopped) return "stopped";
  switch (status.state) {
    case remote::ProcessState::kRunning:
      return status.life < 2 ? "running" : fmt::format("running (start {})", status.life);
    case remote::ProcessState::kExited:
      return status.exit_code == 0 ? "done" : fmt::format("exited with code {}", status.exit_code);
    case remote::ProcessState::kKilled: {
      const char* const name = ::sigdescr_np(status.signal);
      return fmt::format("killed by signal {} ({})", status.signal, name != nullptr ? name : "?");
    }
    case remote::ProcessState::kLost:
      return "lost (its supervisor is gone; the node may have restarted)";
  }
  return "?";
}

const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes) {
  const bool trainers_done = std::ranges::all_of(processes, [](const ProcessOnNode& p) {
    return is_pserver(p.status) || ended_well(p.status) || can_go_on(p.status);
  });
  if (trainers_done) return nullptr;
  bool trainers_run = false;
  const ProcessOnNode* first = nullptr;
  for (const ProcessOnNode& process : processes) {
    trainers_run = trainers_run || (running(process.status) && !is_pserver(process.status));
    if (running(process.status) || ended_well(process.status) || can_go_on(process.status))
      continue;
    if (first == nullptr || order_of_blame(process.status) < order_of_blame(first->status))
      first = &process;
  }
  // Those who were asked with it may still be saving.
  const bool was_asked = first != nullptr && first->status.stopped;
  return was_asked && trainers_run ? nullptr : first;
}

Error failure_error(ClusterSession& session, const ProcessOnNode& failed) {
  Member& member = session.members()[failed.member];
  Error error{Errc::kFailed,
              fmt::format("{} on {} {}", failed.status.name, member.spec.name,
                          describe_state(failed.status)),
              fmt::format("the whole log: paddlectl logs --node {} --job {}", member.spec.name,
                          failed.status.job)};
  if (failed.status.state == remote::ProcessState::kExited) {
    for (const Errc code : {Errc::kUsage, Errc::kVersion, Errc::kUnreachable, Errc::kAuth,
                            Errc::kData, Errc::kResource, Errc::kResumable}) {
      if (failed.status.exit_code == static_cast<int>(code)) error.code = code;
    }
  }
  if (was_stopped(failed.status)) error.hint = "it was told to end: by paddlectl stop, or by kill";
  if (!member.client) return error;
  LogReader reader(failed.status.log);
  auto lines = reader.tail(*member.client, kLastLinesShown);
  if (!lines) return error;
  if (auto rest = reader.rest()) lines->push_back(*std::move(rest));
  if (!lines->empty()) error.message += "; its last lines:";
  for (const LogLine& line : *lines) {
    error.message += fmt::format("\n  {}/{} | {}", member.spec.name, failed.status.name, line.text);
  }
  return error;
}

namespace {

// Nothing while a trainer runs; else whether all of them reached the end of the job.
std::optional<bool> ended(const std::vector<ProcessOnNode>& processes) {
  std::optional<bool> finished;
  for (const ProcessOnNode& process : processes) {
    if (is_pserver(process.status)) continue;
    if (!ended_well(process.status) && !can_go_on(process.status)) return std::nullopt;
    finished = finished.value_or(true) && !can_go_on(process.status);
  }
  return finished;
}

Status follow_until(Context& context, ClusterSession& session, const std::string& job,
                    TimePoint deadline) {
  ProgressFeed feed;
  TimePoint heard = context.clock.now();
  bool looked_again = false;
  for (;;) {
    if (context.interrupted() || context.clock.now() > deadline)
      return Error{Errc::kInterrupted, "interrupted", ""};
    auto processes = session.processes(job);
    const auto now = context.clock.now();
    if (session.unreachable() == 0) {
      heard = now;
    } else if (now - heard > kNodeSilenceMax) {
      auto silent = session.all_well();
      Error error =
          silent ? Error{Errc::kUnreachable, "a node is silent", ""} : std::move(silent).error();
      error.code = Errc::kUnreachable;
      error.hint = "the job goes on without this terminal; look again with: paddlectl attach";
      return error;
    } else {
      session.reconnect(context);
      processes = session.processes(job);  // a node that was silent a moment ago has its own
    }
    feed.poll(context, session, processes);
    if (first_failure(processes) != nullptr) {
      // What died first may have been asked before it died: only a second look orders all of them.
      context.pause(kSettlePause);
      processes = session.processes(job);
      if (const ProcessOnNode* first = first_failure(processes))
        return failure_error(session, *first);
    }
    if (const std::optional<bool> finished = ended(processes);
        finished && session.unreachable() == 0) {
      if (!*finished && deadline == TimePoint::max() && !looked_again) {
        looked_again = true;  // `restart` stops a job as well, and starts it again at once
        context.pause(kRestartPause);
        continue;
      }
      feed.poll(context, session, processes);
      context.console.end_progress();
      if (*finished) return {};
      return Error{Errc::kResumable, job + " stopped before its end",
                   "go on with: paddlectl train --resume --name " + job + " <workspace>"};
    }
    looked_again = false;
    if (processes.empty() && session.unreachable() == 0) {
      return Error{Errc::kFailed, fmt::format("job '{}' is not on its nodes any more", job),
                   "was the cluster torn down meanwhile?"};
    }
    context.pause(kPollPeriod);
  }
}

}  // namespace

Status follow_job(Context& context, ClusterSession& session, const std::string& job) {
  return follow_until(context, session, job, TimePoint::max());
}

Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job) {
  context.take_interrupt();
  context.console.end_progress();
  context.console.note("asking the job to stop and to save; Ctrl-C again ends it at once");
  PADDLE_TRY_STATUS(ask_job_to_stop(session, job));
  return follow_until(context, session, job, context.clock.now() + kCleanStopDeadline);
}

}  // namespace paddle::cli
