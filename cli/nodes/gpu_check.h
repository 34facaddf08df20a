// Faults of the GPUs of nodes that train together. Pure functions of their facts.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct GpuNode {
  const ClusterNode* node = nullptr;
  const remote::HostFacts* facts = nullptr;  // null: not known
  std::string address;                       // on the data plane
};

struct GpuFault {
  const char* column;  // of check's table
  std::string reason, next;
};

// Of the node at `at`: GPUs of the cluster file that it does not show, or that another node names
// too, a library of another version than its driver, and versions other than those of most nodes.
std::vector<GpuFault> gpu_faults(const std::vector<GpuNode>& nodes, std::size_t at);

}  // namespace paddle::cli
