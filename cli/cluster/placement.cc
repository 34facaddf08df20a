#include "cli/cluster/placement.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

// Nodes in turns; a node appears in a turn as often as its capacity. Without a count: one turn for
// trainers, or one pserver per node.
Result<std::vector<std::size_t>> round_robin(const ClusterSpec& cluster, bool pserver,
                                             std::optional<std::uint32_t> count,
                                             const NodeLoads& loads) {
  std::vector<std::size_t> order(cluster.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t node) {
    const auto load = loads.find(node);
    return load == loads.end() ? 0 : load->second;
  });
  std::vector<std::size_t> turn;
  std::size_t able = 0;  // nodes with the role; the turn begins with each of them once
  for (std::uint32_t taken = 0, last = 1; taken < last; ++taken) {
    for (const std::size_t i : order) {
      const ClusterNode& node = cluster.nodes[i];
      if (!(pserver ? node.runs_pserver : node.runs_trainer)) continue;
      if (taken < node.capacity && turn.size() < kRoleProcessesMax) turn.push_back(i);
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
  if (count.value_or(0) > kRoleProcessesMax) {
    return Error{Errc::kUsage, fmt::format("over {} {}s", kRoleProcessesMax, role), ""};
  }
  std::vector<std::size_t> nodes;
  const std::size_t wanted = count.value_or(pserver ? able : turn.size());
  for (std::size_t i = 0; i < wanted; ++i) nodes.push_back(turn[i % turn.size()]);
  return nodes;
}

// Adds the pservers to a placement of trainers, and the list of nodes used.
Status add_pservers(const ClusterSpec& cluster, std::optional<std::uint32_t> count,
                    const NodeLoads& loads, Placement& placement) {
  if (count != 0U) {
    PADDLE_TRY(placement.pservers, round_robin(cluster, true, count, loads));
  }
  std::set<std::size_t> used(placement.pservers.begin(), placement.pservers.end());
  used.insert(placement.trainers.begin(), placement.trainers.end());
  placement.nodes.assign(used.begin(), used.end());
  return {};
}

}  // namespace

Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::optional<std::uint32_t> pservers, const NodeLoads& loads) {
  Placement placement;
  const auto count = trainers > 0 ? std::optional(trainers) : std::nullopt;
  PADDLE_TRY(placement.trainers, round_robin(cluster, false, count, loads));
  PADDLE_TRY_STATUS(add_pservers(cluster, pservers, loads, placement));
  return placement;
}

Result<Placement> place_on_gpus(const ClusterSpec& cluster, std::vector<NodeGpus> gpus,
                                std::uint32_t trainers, std::optional<std::uint32_t> pservers) {
  Placement placement;
  for (std::size_t node = 0; node < gpus.size(); ++node)
    placement.trainers.insert(placement.trainers.end(), gpus[node].places.size(), node);
  const std::size_t all = placement.trainers.size();
  if (all == 0 || all > kRoleProcessesMax || trainers > all) {
    return Error{Errc::kUsage,
                 trainers > all ? fmt::format("{} for {}, but each trainer needs one GPU",
                                              counted(trainers, "trainer"), counted(all, "GPU"))
                                : fmt::format("{} for trainers, but at most {} can be used",
                                              counted(all, "GPU"), kRoleProcessesMax),
                 "change --trainers, --gpus or --on"};
  }
  if (trainers > 0) placement.trainers.resize(trainers);
  placement.gpus = std::move(gpus);
  PADDLE_TRY_STATUS(add_pservers(cluster, pservers, {}, placement));
  return placement;
}

std::optional<std::uint32_t> copying_trainer(const Placement& placement) {
  const auto& nodes = placement.trainers;
  const auto other = std::ranges::find_if(nodes, [&](auto node) { return node != nodes.front(); });
  if (other == nodes.end()) return std::nullopt;
  return static_cast<std::uint32_t>(other - nodes.begin());
}

}  // namespace paddle::cli
