#include "cli/watch/pace.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/console/console.h"
#include "cli/console/time_text.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// first_batch_ms: the limit for a trainer that has done no batch of the pass yet.
std::int64_t silence_max(const remote::Progress& progress, std::int64_t first_batch_ms) {
  if (progress.batch == 0) return first_batch_ms;
  const auto batch_ms = static_cast<std::int64_t>(
      std::min(progress.batch_ms, static_cast<std::uint64_t>(kSlowBatchMaxMs)));
  return std::max(kTrainerSilenceMaxMs, kBatchesOfSilence * batch_ms);
}

// A trainer that itself waits is not a cause, unless all of them wait.
std::set<std::string> causes_of(const std::set<std::string>& awaited,
                                const std::set<std::string>& waiting) {
  std::set<std::string> causes;
  std::ranges::set_difference(awaited, waiting, std::inserter(causes, causes.end()));
  return causes.empty() ? awaited : causes;
}

// Whether a trainer has been held up for long, although no process waits for it.
bool is_held_up(const ProcessOnNode& process, const std::set<std::string>& awaited) {
  const remote::ProcessStatus& status = process.status;
  return !awaited.empty() && is_running_trainer(process) && status.progress &&
         !awaited.contains(status.name) &&
         status.silent_ms > silence_max(*status.progress, kTrainerSilenceMaxMs);
}

ProcessPace pace_of_trainer(const remote::ProcessStatus& status,
                            const std::vector<std::string>& hanging_pservers,
                            const std::set<std::string>& awaited, std::int64_t first_batch_ms) {
  const remote::Progress& progress = *status.progress;
  const std::int64_t silent = status.silent_ms;
  const bool is_stalled = silent > silence_max(progress, first_batch_ms);
  if (status.notice_age_ms.value_or(0) > kNoticeAgeMaxMs)
    return {is_stalled ? Pace::kStalled : Pace::kSuspect, silent, {}};
  if (!hanging_pservers.empty() && silent > kWaitingSilenceMinMs)
    return {Pace::kWaiting, silent, hanging_pservers};
  // Saving takes as long as the disks do, and is reported when it begins.
  if (progress.activity == remote::Activity::kSaving) return {Pace::kSaving, silent, {}};
  if (silent > kWaitingSilenceMinMs && !awaited.empty() && !awaited.contains(status.name))
    return {Pace::kWaiting, silent, {awaited.begin(), awaited.end()}};
  if (is_stalled) return {Pace::kStalled, silent, {}};
  const bool tests = progress.activity == remote::Activity::kTesting;
  return {tests ? Pace::kTesting : Pace::kRunning, silent, {}};
}

// "trainer-0", "trainer-0 and trainer-1", "trainer-0, trainer-1 and 62 more".
std::string shortened(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  if (names.size() == 2) return names[0] + " and " + names[1];
  return fmt::format("{}, {} and {} more", names[0], names[1], names.size() - 2);
}

// Records for each process the running processes that its heartbeats do not reach.
void note_missed(const std::vector<ProcessOnNode>& processes, Paces& paces) {
  for (const auto& [member, status] : processes) {
    if (!is_running(status) || !status.progress) continue;
    for (const auto& [index, missed_ms] : status.progress->missed_ms) {
      const char* const role = is_pserver(status) ? "trainer-" : "pserver-";
      const auto peer = paces.find(role + std::to_string(index));
      if (peer == paces.end() || missed_ms < kMissedMinMs) continue;
      peer->second.missed_by.push_back(status.name);
      // A trainer that waits for the peer reports this once.
      const std::int64_t since = is_pserver(status) ? 0 : status.silent_ms;
      peer->second.missed_ms = std::max({peer->second.missed_ms, missed_ms, since});
    }
  }
}

}  // namespace

Paces paces_of(const std::vector<ProcessOnNode>& processes) {
  Paces paces;
  std::vector<std::string> hanging_pservers;
  std::set<std::string> awaited, waiting;
  for (const auto& [member, status] : processes) {
    if (!is_running(status)) continue;
    ProcessPace& pace = paces[status.name];
    pace.notice_age_ms = status.notice_age_ms.value_or(0);
    const bool is_suspect = pace.notice_age_ms > kNoticeAgeMaxMs;
    if (!status.progress) {
      pace.pace = status.reports ? Pace::kStarting : Pace::kUnknown;
      if (is_suspect) pace.pace = Pace::kSuspect;
      continue;
    }
    bool hangs_itself = is_suspect;
    if (is_pserver(status)) {
      pace.pace = is_suspect ? Pace::kSuspect : Pace::kRunning;
      pace.silent_ms = status.silent_ms;
      if (pace.silent_ms > kPserverSilenceMaxMs) pace.pace = Pace::kStalled;
      hangs_itself = hangs(pace.pace);
      if (hangs_itself) hanging_pservers.push_back(status.name);
    }
    // Trainers of a group report themselves which trainers they wait for.
    const std::vector<std::string>& named = status.progress->awaited;
    if (hangs_itself || named.empty()) continue;
    awaited.insert(named.begin(), named.end());
    waiting.insert(status.name);
  }
  awaited = causes_of(awaited, waiting);
  // While other trainers are held up, a long time for reading and shuffling counts as a stall.
  const bool holds_up = std::ranges::any_of(
      processes, [&](const ProcessOnNode& process) { return is_held_up(process, awaited); });
  const std::int64_t first_batch_ms = holds_up ? kTrainerSilenceMaxMs : kFirstBatchMaxMs;
  for (const auto& [member, status] : processes) {
    if (!is_running(status) || is_pserver(status) || !status.progress) continue;
    ProcessPace& pace = paces[status.name];
    pace = pace_of_trainer(status, hanging_pservers, awaited, first_batch_ms);
    pace.notice_age_ms = status.notice_age_ms.value_or(0);
  }
  note_missed(processes, paces);
  return paces;
}

std::string describe(const ProcessPace& pace) {
  switch (pace.pace) {
    case Pace::kStarting:
      return "starting";
    case Pace::kTesting:
      return "testing";
    case Pace::kSaving:
      return "saving " + span_text(pace.silent_ms);
    case Pace::kWaiting:
      return "waits for " + shortened(pace.waits_for);
    case Pace::kSuspect:
      return "no response for " + span_text(pace.notice_age_ms);
    case Pace::kStalled:
      return "stalled " + span_text(pace.silent_ms);
    case Pace::kUnknown:
    case Pace::kRunning:
      break;
  }
  return "";
}

std::vector<std::string> describe_stalls(
    const Paces& paces, const std::map<std::string, std::string>& node_of_process) {
  std::vector<std::string> lines;
  for (const auto& [name, pace] : paces) {
    const auto node = node_of_process.find(name);
    if (!hangs(pace.pace)) {
      if (pace.missed_by.empty()) continue;
      lines.push_back(fmt::format("{} on {}: no heartbeat reaches {} for {}", name,
                                  node == node_of_process.end() ? "?" : node->second,
                                  shortened(pace.missed_by), span_text(pace.missed_ms)));
      continue;
    }
    std::vector<std::string> signs;
    if (pace.pace == Pace::kStalled)
      signs.push_back("no progress for " + span_text(pace.silent_ms));
    if (pace.notice_age_ms > kNoticeAgeMaxMs)
      signs.push_back("no response for " + span_text(pace.notice_age_ms));
    lines.push_back(
        fmt::format("{} on {}{}: {}", name, node == node_of_process.end() ? "?" : node->second,
                    pace.pace == Pace::kStalled ? " is stalled" : "", fmt::join(signs, ", ")));
    std::vector<std::string> waiting;
    std::int64_t longest = 0;
    for (const auto& [other, waits] : paces) {
      if (std::ranges::find(waits.waits_for, name) == waits.waits_for.end()) continue;
      waiting.push_back(other);
      longest = std::max(longest, waits.silent_ms);
    }
    if (waiting.empty()) continue;
    lines.push_back(fmt::format("{} {} for {} ({})", shortened(waiting),
                                waiting.size() == 1 ? "waits" : "wait", name, span_text(longest)));
  }
  return lines;
}

}  // namespace paddle::cli
