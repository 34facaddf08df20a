#include "cli/cluster/unknown_nodes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/pool.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kUnknownShown = 4;

// Identifies a machine and a folder on it, so that each is asked once.
std::string place_of(const remote::NodeSpec& spec) {
  const std::string above = std::filesystem::path(spec.root).parent_path().string();
  return fmt::format("{} {} {} {}", spec.launcher, spec.host, fmt::join(spec.command, " "), above);
}

std::string file_name(const ClusterSpec& cluster) {
  return std::filesystem::path(cluster.file).filename().string();
}

std::set<std::string> folders_of_others(Context& context, ClusterSession& session,
                                        const ClusterSpec& cluster, AskedMachines wanted) {
  std::map<std::string, const remote::NodeSpec*> places;
  for (const Member& member : session.members()) {
    const bool is_cheap = member.absent || member.spec.is_local();
    if (wanted == AskedMachines::kAll || is_cheap)
      places.emplace(place_of(member.spec), &member.spec);
  }
  std::vector<const remote::NodeSpec*> asked;
  asked.reserve(places.size());
  for (const auto& [place, spec] : places) asked.push_back(spec);
  std::mutex mutex;
  std::set<std::string> names;
  const auto ask = [&](std::size_t i) {
    const auto found = context.folders_beside(*asked[i]);
    if (!found) return;
    const std::lock_guard lock(mutex);
    names.insert(found->begin(), found->end());
  };
  for_each_parallel(asked.size(), ask, context.limits.at_once);
  for (const ClusterNode& node : cluster.nodes) names.erase(node.spec.name);
  return names;
}

}  // namespace

std::string describe_unknown_nodes(Context& context, ClusterSession& session,
                                   const ClusterSpec& cluster, AskedMachines asked) {
  if (!context.folders_beside) return "";
  std::set<std::string> found = folders_of_others(context, session, cluster, asked);
  const bool is_old = found.erase(".") > 0;
  if (found.empty() && is_old) {
    return "the machines have a folder of this cluster from an earlier release of paddlectl";
  }
  if (found.empty()) return "";
  std::vector<std::string> names(found.begin(), found.end());
  std::string more;
  if (names.size() > kUnknownShown) {
    more = fmt::format(" and {} more", names.size() - kUnknownShown);
    names.resize(kUnknownShown);
  }
  const bool is_one = found.size() == 1;
  return fmt::format("{} of {}{}, which {} not in {}, {} on the machines of this cluster",
                     is_one ? "a folder" : "folders", fmt::join(names, ", "), more,
                     is_one ? "is" : "are", file_name(cluster), is_one ? "is" : "are");
}

std::string hint_of_unknown_nodes(const ClusterSpec& cluster) {
  return fmt::format(
      "was a node renamed in {0}, or removed from it? Processes there can be reached only under "
      "the old name: restore it until its jobs have ended, or run paddlectl teardown with a copy "
      "of {0} that has it",
      file_name(cluster));
}

Error with_unknown_nodes(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                         Error error) {
  const std::string unknown =
      describe_unknown_nodes(context, session, cluster, AskedMachines::kAll);
  if (unknown.empty()) return error;
  error.code = Errc::kUsage;
  error.message += (error.message.empty() ? "" : "\n") + unknown;
  error.hint = hint_of_unknown_nodes(cluster);
  return error;
}

}  // namespace paddle::cli
