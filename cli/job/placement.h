// The node of each process of a job.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"

namespace paddle::cli {

struct Placement {
  std::vector<std::size_t> pservers;  // node of each pserver
  std::vector<std::size_t> trainers;  // node of each trainer
  std::vector<std::size_t> nodes;     // those used, ascending
};

// Round robin over the nodes with the role, each weighted by its capacity. 0 trainers: as many as
// the nodes have capacity; 0 pservers: one a node. kUsage when no node has the role.
Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::uint32_t pservers);

}  // namespace paddle::cli
