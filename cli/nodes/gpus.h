// GPUs of nodes: which of them a job uses, and which trainer gets which.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/console/console.h"

namespace paddle::cli {

// The value of --gpus: all, a number of them on each node, or those named.
struct GpuChoice {
  bool all = false;
  std::uint32_t count = 0;
  std::vector<std::string> names;  // nvidia-smi's numbers, or UUIDs or their beginnings
};
// "all", "4", "0,2"; a comma at the end tells the GPU "2," from two GPUs.
Result<GpuChoice> parse_gpus(const std::string& text);

// The GPUs of a node that a job uses, one for each of its trainers there.
struct NodeGpus {
  std::string visible;              // CUDA_VISIBLE_DEVICES of all its trainers
  std::vector<std::size_t> places;  // of each trainer's GPU in `visible`
  std::vector<std::string> keys;    // of each trainer's: gpu_key
  Status engine = {};               // check_libc's, which matters to paddle-gpu alone
  std::string without_nccl = {};    // nccl_missing's
};

// kResource: paddle-gpu cannot start on the node, whose C library is older than it needs, or
// another one.
Status check_libc(const ClusterNode& node, const remote::HostFacts& facts);

// `environment`: the job's, whose CUDA_VISIBLE_DEVICES comes before that of the node in the cluster
// file, its `gpus` there, and its login environment. kUsage for a GPU that the node does not show.
Result<NodeGpus> choose_gpus(const ClusterNode& node, const remote::HostFacts& facts,
                             const std::map<std::string, std::string>& environment,
                             const GpuChoice& choice);

// Says that the node shows no NCCL; "" where it does, or where somebody has said in which folder
// libraries are.
std::string nccl_missing(const ClusterNode& node, const remote::HostFacts& facts,
                         const std::map<std::string, std::string>& environment);

// Asks every node with the role trainer; by node of the cluster. kUsage also when two of them have
// one GPU, as nodes of one machine may.
Result<std::vector<NodeGpus>> find_gpus(Context& context, const ClusterSpec& cluster,
                                        const std::map<std::string, std::string>& environment,
                                        const GpuChoice& choice);

// The same for one GPU under whatever name, on any node: its UUID, or else its number and the
// node's address. "" when the node shows none of this name.
std::string gpu_key(const remote::HostFacts& facts, const std::string& address,
                    const std::string& name);
// The names in a list such as CUDA_VISIBLE_DEVICES has.
std::vector<std::string> gpu_names(const std::string& list);
// The number that nvidia-smi gives the GPU; as many as there are when the node shows none of this
// name.
std::size_t gpu_number(const std::vector<remote::Gpu>& gpus, const std::string& name);

// "2x NVIDIA H100, 1x NVIDIA T4", "none"; in JSON a list of their models.
Cell gpus_cell(const remote::HostFacts& facts);

}  // namespace paddle::cli
