#include "cli/watch/missing_processes.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr auto kSecondLook = std::chrono::milliseconds(300);
constexpr std::size_t kProcessesNamed = 4;

std::string list_of(const std::vector<std::string>& names) {
  if (names.size() > kProcessesNamed)
    return fmt::format("{} and {} more", names.front(), names.size() - 1);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Lost nodes.

constexpr std::size_t kLostNamesShown = 4;
constexpr const char* kHintOfLoss =
    "if a node does not return, leave it out with paddlectl up --any; if a node is empty, prepare "
    "it again with paddlectl up";

std::string names_text(const std::vector<std::string>& names) {
  if (names.size() <= kLostNamesShown) return fmt::format("{}", fmt::join(names, ", "));
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(kLostNamesShown);
  return fmt::format("{} and {} more", fmt::join(names.begin(), end, ", "),
                     names.size() - kLostNamesShown);
}

void add_missing(std::string_view role, std::size_t count,
                 const std::vector<ProcessOnNode>& processes, std::set<std::string>& missing) {
  for (std::size_t i = 0; i < count; ++i) missing.insert(fmt::format("{}-{}", role, i));
  for (const auto& [member, status] : processes) missing.erase(status.name);
}

std::string describe_loss(const Member& node, const std::string& job,
                          const std::vector<std::string>& names) {
  return fmt::format("node {} {}; {} of {} ran there", node.spec.name,
                     node.absent ? "is lost: it no longer has a folder of this cluster"
                                 : "has lost the job: it no longer has a folder of the job",
                     names_text(names), job);
}

// The error for a job of which no node shows anything. Nothing if the job was removed: then the
// nodes that had it are still there, or all nodes were torn down.
std::optional<LostNodes> find_all_lost(const ClusterSession& session, const std::string& job,
                                       const ProcessPlaces& places) {
  const auto& members = session.members();
  std::map<std::size_t, std::vector<std::string>> lost;
  for (const auto& [name, member] : places.of_process()) lost[member].push_back(name);
  const bool is_emptied =
      std::ranges::any_of(lost, [&](const auto& one) { return !members[one.first].absent; });
  const bool is_torn_down = std::ranges::all_of(members, &Member::absent);
  if (lost.empty() || is_emptied || is_torn_down) return std::nullopt;
  std::vector<std::string> lines;
  for (const auto& [member, names] : lost)
    lines.push_back(describe_loss(members[member], job, names));
  return LostNodes{
      {Errc::kUnreachable, fmt::format("{}", fmt::join(lines, "\n")), kHintOfLoss}, true, true};
}

}  // namespace

// Checks for snapshots and for lines of metrics that trainers write, also those of a user's own
// program.
bool has_trained(ClusterSession& session, const std::string& job) {
  std::atomic<bool> has = false;
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list_sizes("jobs/" + job));
    for (const remote::FileEntry& file : files) {
      const std::string name = file.path.substr(file.path.rfind('/') + 1);
      const bool is_metrics =
          file.path.starts_with("node_") && name.starts_with("metrics") && name.ends_with(".jsonl");
      if (file.size > 0 && (is_metrics || file.path.starts_with("output/pass-"))) has = true;
      if (file.path.starts_with("output/") && name == "MANIFEST") has = true;
    }
    return {};
  });
  return has;
}

bool has_worked(const remote::ProcessStatus& status) {
  const auto& progress = status.progress;
  if (progress && (progress->pass > 0 || progress->batch > 0 || progress->updates > 0)) return true;
  return !is_pserver(status) && (ended_well(status) || is_resumable(status));
}

std::optional<BrokenStart> broken_start(const ClusterSession& session,
                                        const std::vector<ProcessOnNode>& processes) {
  if (!session.sees_whole_cluster()) return std::nullopt;
  BrokenStart broken;
  std::map<std::string, bool> known;  // whether it runs, by name
  for (const auto& [member, status] : processes) {
    if (status.claimed || has_worked(status)) return std::nullopt;
    known[status.name] = is_running(status);
    broken.is_first_start = broken.is_first_start && status.incarnation <= 1;
    broken.trainers = std::max(broken.trainers, status.trainers);
    broken.pservers = std::max(broken.pservers, status.pservers);
  }
  const auto sort_out = [&](std::string_view role, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::string name = fmt::format("{}-{}", role, i);
      const auto found = known.find(name);
      if (found == known.end()) broken.missing.push_back(std::move(name));
      if (found != known.end() && found->second) broken.running.push_back(std::move(name));
    }
  };
  sort_out("pserver", broken.pservers);
  sort_out("trainer", broken.trainers);
  if (broken.missing.empty()) return std::nullopt;
  return broken;
}

std::optional<BrokenStart> find_broken_start(Context& context, ClusterSession& session,
                                             const std::string& job) {
  if (!broken_start(session, session.processes(job))) return std::nullopt;
  context.pause(kSecondLook);
  auto broken = broken_start(session, session.processes(job));
  if (broken) broken->has_trained = has_trained(session, job);
  return broken;
}

std::string describe(const BrokenStart& broken, const std::string& job) {
  const std::string missing = list_of(broken.missing);
  const std::string what =
      broken.is_first_start && !broken.has_trained
          ? fmt::format("the start of {} was interrupted: {} {} never started", job, missing,
                        broken.missing.size() == 1 ? "was" : "were")
          : fmt::format("{} is incomplete: no node has {}", job, missing);
  if (broken.running.empty()) return what + "; none of its processes runs";
  return fmt::format("{}; {} {}", what, list_of(broken.running),
                     broken.running.size() == 1 ? "runs" : "run");
}

void ProcessPlaces::note(const std::vector<ProcessOnNode>& processes) {
  for (const auto& [member, status] : processes) {
    of_process_.erase(status.name);
    if (!ended_well(status) && !is_resumable(status)) of_process_.emplace(status.name, member);
  }
}

std::vector<std::string> missing_processes(const std::vector<ProcessOnNode>& processes,
                                           const ProcessPlaces& places) {
  const JobSize size = size_of_job(processes);
  std::set<std::string> missing;
  for (const auto& [name, member] : places.of_process()) missing.insert(name);
  add_missing("pserver", size.pservers, processes, missing);
  add_missing("trainer", size.trainers, processes, missing);
  return {missing.begin(), missing.end()};
}

std::optional<LostNodes> find_lost_nodes(const ClusterSession& session, const std::string& job,
                                         const std::vector<ProcessOnNode>& processes,
                                         const ProcessPlaces& places) {
  if (session.unreachable() > 0) return std::nullopt;
  if (processes.empty()) return find_all_lost(session, job, places);
  const bool is_claimed = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return process.status.claimed; });
  if (is_claimed) return std::nullopt;
  const bool worked = session.sees_whole_cluster() &&
                      std::ranges::any_of(processes, [](const ProcessOnNode& process) {
                        return has_worked(process.status);
                      });
  std::map<std::size_t, std::vector<std::string>> lost;  // by member
  std::vector<std::string> nowhere;
  for (const std::string& name : missing_processes(processes, places)) {
    const auto place = places.of_process().find(name);
    if (place != places.of_process().end()) {
      lost[place->second].push_back(name);
    } else if (worked) {
      nowhere.push_back(name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [member, names] : lost)
    lines.push_back(describe_loss(session.members()[member], job, names));
  if (!nowhere.empty()) {
    lines.push_back(fmt::format("{} is incomplete: no node has {}", job, names_text(nowhere)));
    for (const Member& member : session.members()) {
      if (member.absent)
        lines.push_back(fmt::format("node {}: it has no folder of this cluster", member.spec.name));
    }
  }
  if (lines.empty()) return std::nullopt;
  return LostNodes{{Errc::kUnreachable, fmt::format("{}", fmt::join(lines, "\n")), kHintOfLoss},
                   !lost.empty(),
                   std::ranges::any_of(session.members(), &Member::absent)};
}

}  // namespace paddle::cli
