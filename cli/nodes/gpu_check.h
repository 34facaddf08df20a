// Faults of the GPUs of nodes that train together. Pure functions of their facts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct GpuNode {
  const ClusterNode* node = nullptr;
  const remote::HostFacts* facts = nullptr;               // null: not known
  std::string address;                                    // on the data plane
  std::span<const remote::ProcessStatus> processes = {};  // of all jobs
};

struct GpuFault {
  const char* column;  // of check's table
  std::string reason, next;
};

// Of the node at `at`: GPUs of the cluster file that it does not show, or that another node names
// too, or that trainers of two jobs use; a library of another version than its driver, and versions
// other than those of most nodes. With `has_gpu_engine`, also what paddle-gpu would lack there.
std::vector<GpuFault> gpu_faults(const std::vector<GpuNode>& nodes, std::size_t at,
                                 bool has_gpu_engine);

}  // namespace paddle::cli
