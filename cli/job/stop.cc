#include "cli/job/stop.h"

#include <algorithm>

#include "cli/job/process_state.h"

namespace paddle::cli {
namespace {

constexpr auto kStopGrace = std::chrono::seconds(5);
constexpr auto kPollPeriod = std::chrono::milliseconds(200);

bool is_running_trainer(const ProcessOnNode& process) {
  return !is_pserver(process.status) && is_running(process.status);
}

// A node without our folder has nothing of the job to stop.
void forgive_absent(ClusterSession& session) {
  for (Member& member : session.members()) {
    if (member.absent) member.error.reset();
  }
}

}  // namespace

Status ask_job_to_stop(ClusterSession& session, const std::string& job) {
  forgive_absent(session);
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
      return Error{Errc::kInterrupted, "not waiting for it: " + job + " goes on stopping", ""};
    }
    if (context.clock.now() > deadline) {
      return Error{Errc::kUnreachable, job + " was asked to stop and still runs",
                   "end it at once: paddlectl stop --now"};
    }
    context.pause(kPollPeriod);
  }
  return {};
}

Status stop_job(ClusterSession& session, const std::string& job) {
  forgive_absent(session);
  return session.each([&](Member& member) {
    Status stopped = member.client->stop(job, {}, kStopGrace);
    // Without its client, reconnect() connects the node anew.
    if (!stopped && stopped.error().code == Errc::kUnreachable) member.client.reset();
    return stopped;
  });
}

}  // namespace paddle::cli
