#include "cli/watch/lost_nodes.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/watch/broken_start.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kLostNamesShown = 4;
constexpr const char* kHintOfLoss =
    "a node that does not come back: leave it out with paddlectl up --any; one that is empty: "
    "prepare it again with paddlectl up";

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
                     node.absent ? "is lost: nothing of the cluster is there any more"
                                 : "has lost the job: nothing of it is there any more",
                     names_text(names), job);
}

// A job of which no node shows anything: removed, unless the nodes that had it are gone and others
// are there.
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
        lines.push_back(fmt::format("node {}: nothing of the cluster is there", member.spec.name));
    }
  }
  if (lines.empty()) return std::nullopt;
  return LostNodes{{Errc::kUnreachable, fmt::format("{}", fmt::join(lines, "\n")), kHintOfLoss},
                   !lost.empty(),
                   std::ranges::any_of(session.members(), &Member::absent)};
}

}  // namespace paddle::cli
