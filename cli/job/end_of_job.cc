#include "cli/job/end_of_job.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cli/job/process_state.h"
#include "cli/logs/metrics_line.h"
#include "cli/logs/reader.h"

namespace paddle::cli {
namespace {

constexpr auto kStopGrace = std::chrono::seconds(5);
constexpr auto kStopPollPeriod = std::chrono::milliseconds(200);

bool is_running_trainer(const ProcessOnNode& process) {
  return !is_pserver(process.status) && is_running(process.status);
}

constexpr auto kPollPeriod = std::chrono::seconds(1);
// Gives the cause of a first failure time to be recorded on its own node.
constexpr auto kSettlePause = std::chrono::milliseconds(500);
// Longer than a job has no running process while `restart` starts it again.
constexpr auto kRestartPause = std::chrono::seconds(3);
constexpr auto kNodeSilenceMax = std::chrono::seconds(30);

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
      if (!lines) return;  // no file yet, or a lost node, which processes() notices
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
      error.hint =
          "the job continues without this terminal; follow it again with: paddlectl attach";
      return error;
    } else {
      session.reconnect(context);
      processes = session.processes(job);  // with those of a node that answers again
    }
    feed.poll(context, session, processes);
    if (first_failure(processes) != nullptr) {
      // The node of the first cause may have answered before it died: ask all once more.
      context.pause(kSettlePause);
      processes = session.processes(job);
      if (const ProcessOnNode* first = first_failure(processes))
        return failure_error(session, *first);
    }
    if (const std::optional<bool> finished = ended(processes);
        finished && session.unreachable() == 0) {
      if (!*finished && deadline == TimePoint::max() && !looked_again) {
        looked_again = true;  // `restart` stops a job too, and starts it again at once
        context.pause(kRestartPause);
        continue;
      }
      feed.poll(context, session, processes);
      context.console.end_progress();
      if (*finished) return {};
      return Error{Errc::kResumable, job + " stopped before its end",
                   "resume with: paddlectl train --resume --name " + job + " <workspace>"};
    }
    looked_again = false;
    if (processes.empty() && session.unreachable() == 0) {
      return Error{Errc::kFailed, fmt::format("job '{}' is not on its nodes any more", job),
                   "was the cluster torn down meanwhile?"};
    }
    context.pause(kStopPollPeriod);
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
  const TimePoint deadline = context.clock.now() + kCleanStopDeadline;
  while (std::ranges::any_of(session.processes(job), is_running_trainer)) {
    if (context.interrupted()) {
      return Error{Errc::kInterrupted, "no longer waiting: " + job + " is still stopping", ""};
    }
    if (context.clock.now() > deadline) {
      return Error{Errc::kUnreachable, job + " was asked to stop and still runs",
                   "end it immediately: paddlectl stop --now"};
    }
    context.pause(kPollPeriod);
  }
  return {};
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

Status follow_job(Context& context, ClusterSession& session, const std::string& job) {
  return follow_until(context, session, job, TimePoint::max());
}

Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job) {
  context.take_interrupt();
  context.console.end_progress();
  context.console.note("asking the job to stop and to save; Ctrl-C again ends it immediately");
  PADDLE_TRY_STATUS(ask_job_to_stop(session, job));
  return follow_until(context, session, job, context.clock.now() + kCleanStopDeadline);
}

}  // namespace paddle::cli
