// The node of each process of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/gpus.h"

namespace paddle::cli {

constexpr std::uint32_t kRoleProcessesMax = 4096;  // pservers, or trainers, of a job

struct Placement {
  std::vector<std::size_t> pservers;  // node of each pserver
  std::vector<std::size_t> trainers;  // node of each trainer
  std::vector<std::size_t> nodes;     // the nodes used, ascending
  std::vector<NodeGpus> gpus = {};    // by node of the cluster, if each trainer has a GPU
};

// The number of processes that run on nodes already; a node that is not in the map has none.
using NodeLoads = std::map<std::size_t, std::size_t>;

// Round robin over the nodes with the role, the least loaded first, weighted by capacity. 0
// trainers: as many as the nodes' capacity; no number of pservers: one per node. kUsage: no node
// has the role of a requested process.
Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::optional<std::uint32_t> pservers, const NodeLoads& loads = {});

// Places one trainer on each GPU, node after node, so that the ranks of a node are consecutive. 0
// trainers: one for each GPU; otherwise the first `trainers` GPUs. kUsage: there are fewer GPUs.
Result<Placement> place_on_gpus(const ClusterSpec& cluster, std::vector<NodeGpus> gpus,
                                std::uint32_t trainers, std::optional<std::uint32_t> pservers);

// The trainer that saves copies of trainer 0's snapshots: the first one on another node. Nothing if
// all trainers are on one node.
std::optional<std::uint32_t> copying_trainer(const Placement& placement);

}  // namespace paddle::cli
