#include "cli/job/idle_nodes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

std::size_t nodes_with_a_role(const ClusterSpec& cluster) {
  return static_cast<std::size_t>(std::ranges::count_if(cluster.nodes, [](const ClusterNode& node) {
    return node.runs_pserver || node.runs_trainer;
  }));
}

// Adds the number of running processes of each of these nodes. One that cannot be reached counts as
// idle: the start names it.
void count_processes(Context& context, const ClusterSpec& cluster,
                     const std::vector<std::size_t>& nodes, NodeLoads& loads) {
  for (const std::size_t node : nodes) loads[node] = 0;
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  for (const ProcessOnNode& process : session.processes("")) {
    if (is_running(process.status)) ++loads[session.members()[process.member].node];
  }
}

}  // namespace

Result<Placement> place_on_idle_nodes(Context& context, const ClusterSpec& cluster,
                                      std::uint32_t trainers,
                                      std::optional<std::uint32_t> pservers) {
  PADDLE_TRY(const Placement first, place_job(cluster, trainers, pservers));
  if (first.nodes.size() >= nodes_with_a_role(cluster)) return first;
  Placement placement = first;
  NodeLoads loads;
  for (;;) {
    std::vector<std::size_t> unknown;
    std::ranges::copy_if(placement.nodes, std::back_inserter(unknown),
                         [&](std::size_t node) { return !loads.contains(node); });
    if (unknown.empty()) break;
    count_processes(context, cluster, unknown, loads);
    PADDLE_TRY(placement, place_job(cluster, trainers, pservers, loads));
  }
  std::vector<std::string> busy;
  for (const std::size_t node : first.nodes) {
    if (std::ranges::find(placement.nodes, node) == placement.nodes.end())
      busy.push_back(cluster.nodes[node].spec.name);
  }
  if (!busy.empty()) {
    context.console.note(fmt::format("{} {} another job: idle nodes are used first",
                                     fmt::join(busy, ", "), busy.size() == 1 ? "runs" : "run"));
  }
  return placement;
}

}  // namespace paddle::cli
