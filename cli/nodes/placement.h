// The node of each process of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/nodes/gpus.h"

namespace paddle::cli {

constexpr std::uint32_t kRoleProcessesMax = 4096;  // pservers, or trainers, of a job

struct Placement {
  std::vector<std::size_t> pservers;  // node of each pserver
  std::vector<std::size_t> trainers;  // node of each trainer
  std::vector<std::size_t> nodes;     // those used, ascending
  std::vector<NodeGpus> gpus = {};    // by node of the cluster, of trainers that have one each
};

// Processes that run on nodes already; a node that is not in it has none.
using NodeLoads = std::map<std::size_t, std::size_t>;

// Round robin over the nodes with the role, the least loaded first, each weighted by its capacity.
// 0 trainers: as many as the nodes have capacity; no number of pservers: one a node. kUsage when no
// node has the role of a process that is wanted.
Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::optional<std::uint32_t> pservers, const NodeLoads& loads = {});

// A trainer for each of the GPUs, node after node, so that ranks of a node follow each other. 0
// trainers: one for each; else so many, the first of them. kUsage when there are not so many GPUs.
Result<Placement> place_on_gpus(const ClusterSpec& cluster, std::vector<NodeGpus> gpus,
                                std::uint32_t trainers, std::optional<std::uint32_t> pservers);

// The trainer that saves copies of trainer 0's snapshots: the first one on another node. Nothing
// where all trainers are on one.
std::optional<std::uint32_t> copying_trainer(const Placement& placement);

}  // namespace paddle::cli
