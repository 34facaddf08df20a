#include "cli/job/placement.h"

#include <set>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::uint32_t kProcessesMax = 4096;

// Nodes in turns; a node appears in a turn as often as its capacity. A count of 0 stands for one
// turn of trainers, and for one pserver a node.
Result<std::vector<std::size_t>> round_robin(const ClusterSpec& cluster, bool pserver,
                                             std::uint32_t count) {
  std::vector<std::size_t> turn;
  std::size_t able = 0;  // nodes with the role; the turn begins with each of them once
  for (std::uint32_t taken = 0, last = 1; taken < last; ++taken) {
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      const ClusterNode& node = cluster.nodes[i];
      if (!(pserver ? node.runs_pserver : node.runs_trainer)) continue;
      if (taken < node.capacity && turn.size() < kProcessesMax) turn.push_back(i);
      last = std::max(last, node.capacity);
    }
    if (taken == 0) able = turn.size();
  }
  const char* const role = pserver ? "pserver" : "trainer";
  if (turn.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("no node of cluster '{}' has the role {}", cluster.name, role),
                 fmt::format("add \"{}\" to a node's roles in {}", role, cluster.file)};
  }
  if (count > kProcessesMax) {
    return Error{Errc::kUsage, fmt::format("over {} {}s", kProcessesMax, role), ""};
  }
  std::vector<std::size_t> nodes;
  const std::size_t wanted = count > 0 ? count : pserver ? able : turn.size();
  for (std::size_t i = 0; i < wanted; ++i) nodes.push_back(turn[i % turn.size()]);
  return nodes;
}

}  // namespace

Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::uint32_t pservers) {
  Placement placement;
  PADDLE_TRY(placement.pservers, round_robin(cluster, true, pservers));
  PADDLE_TRY(placement.trainers, round_robin(cluster, false, trainers));
  std::set<std::size_t> used(placement.pservers.begin(), placement.pservers.end());
  used.insert(placement.trainers.begin(), placement.trainers.end());
  placement.nodes.assign(used.begin(), used.end());
  return placement;
}

}  // namespace paddle::cli
