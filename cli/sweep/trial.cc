#include "cli/sweep/trial.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/job/folders.h"
#include "cli/job/settings.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kMarkBytesMax = 64;

std::string mark_path(const std::string& job) {
  return job_folder(job) + "/pruned";
}

// A run that the user started again with `train --resume` has another number.
std::string mark_of(const ProcessOnNode& leader) {
  return fmt::format("{}\n", leader.status.run);
}

}  // namespace

std::string_view name_of(TrialState state) {
  switch (state) {
    case TrialState::kWaiting:
      return "waiting";
    case TrialState::kRunning:
      return "running";
    case TrialState::kDone:
      return "done";
    case TrialState::kStopped:
      return "stopped";
    case TrialState::kPruned:
      return "pruned";
    case TrialState::kFailed:
      return "failed";
  }
  return "";
}

std::string Trial::text() const {
  return fmt::format("{}", fmt::join(settings, " "));
}

TrialState trial_state(const ClusterSession& session, const std::vector<ProcessOnNode>& processes) {
  using enum TrialState;
  if (processes.empty()) return kWaiting;
  const auto any = [&](auto test) {
    return std::ranges::any_of(processes,
                               [&](const ProcessOnNode& process) { return test(process.status); });
  };
  if (any([](const auto& status) { return status.claimed; })) return kRunning;
  const ProcessOnNode* const failed = first_failure(processes);
  if (failed != nullptr && !is_consequence(failed)) return kFailed;
  if (broken_start(session, processes)) return kWaiting;
  if (std::ranges::all_of(processes, is_pserver, &ProcessOnNode::status)) return kWaiting;
  if (std::ranges::any_of(processes, is_running_trainer)) return kRunning;
  std::size_t done = 0, saved = 0, trainers = 0;
  for (const ProcessOnNode& process : processes) {
    if (is_pserver(process.status)) continue;
    ++trainers;
    done += ended_well(process.status) ? 1U : 0U;
    saved += is_resumable(process.status) ? 1U : 0U;
  }
  if (done == trainers) return kDone;
  const bool is_ended = any([](const auto& status) { return status.stop_ordered; });
  if (done + saved == trainers || is_ended || is_stopped_job(processes)) return kStopped;
  return kFailed;
}

const ProcessOnNode* leader_among(const std::vector<ProcessOnNode>& processes) {
  const auto found = std::ranges::find(processes, "trainer-0",
                                       [](const ProcessOnNode& one) { return one.status.name; });
  return found == processes.end() ? nullptr : &*found;
}

bool is_marked_pruned(ClusterSession& session, const ProcessOnNode& leader) {
  const Member& member = session.members()[leader.member];
  if (!member.client) return false;
  const auto text = member.client->read_whole_file(mark_path(leader.status.job), kMarkBytesMax);
  return text == mark_of(leader);
}

Status mark_pruned(ClusterSession& session, const ProcessOnNode& leader) {
  Member& member = session.members()[leader.member];
  if (!member.client) return Error{Errc::kUnreachable, "no connection to " + member.spec.name, ""};
  remote::PushSource source("", 1);
  remote::PushItem mark{"", mark_path(leader.status.job), false};
  mark.content = mark_of(leader);
  const auto pushed = member.client->push({mark}, source, nullptr);
  return pushed ? Status() : pushed.error();
}

Status check_same_trial(ClusterSession& session, const ProcessOnNode& process,
                        const std::string& tag, JobSettings now) {
  const Member& member = session.members()[process.member];
  const std::string& job = process.status.job;
  const std::string path = job_folder(job) + "/" + kSettingsFile;
  if (!member.client) return Error{Errc::kUnreachable, "no connection to " + member.spec.name, ""};
  const auto text = member.client->read_whole_file(path, kSettingsBytesMax);
  if (!text) {
    const auto asked = member.client->read_file(path, 0, 1);
    if (!asked && asked.error().code == Errc::kUnreachable) return asked.error();
  }
  const JobSettings before = decode_settings(text.value_or("")).value_or(JobSettings());
  if (!before.record.has_tag(tag)) {
    return Error{
        Errc::kUsage,
        fmt::format("job {} on the nodes is no trial of this sweep: it lacks the tag {}", job, tag),
        fmt::format("choose another `name` in the file; or remove the job: paddlectl rm {}", job)};
  }
  now.workspace = before.workspace;
  now.on = before.on;
  now.restarts = before.restarts;
  now.stall_restarts_after = before.stall_restarts_after;
  if (now.data.empty()) now.data = before.data;
  auto changes = changes_between(before, now);
  for (const std::string& name : before.variables) {
    if (std::ranges::find(now.variables, name) == now.variables.end())
      changes.push_back({"--env " + name, "set", ""});
  }
  if (changes.empty()) return {};
  return Error{Errc::kUsage,
               fmt::format("{} was started with other settings than the sweep now has: {}", job,
                           describe(changes.front())),
               "choose another `name` in the file for a new sweep; or take the change back: adding "
               "trials, or values to the first parameter of a grid, changes no earlier trial"};
}

}  // namespace paddle::cli
