// GPUs of nodes: the GPUs that a job uses, and the trainer that each GPU goes to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/console/console.h"

namespace paddle::cli {

// The value of --gpus: all, a number on each node, or named GPUs.
struct GpuChoice {
  bool all = false;
  std::uint32_t count = 0;
  std::vector<std::string> names;  // nvidia-smi's numbers, or UUIDs or their first characters
};
// Parses "all", "4" or "0,2". With a comma at the end, "2," is GPU 2; without it, "2" is a count.
Result<GpuChoice> parse_gpus(const std::string& text);

// The GPUs of a node that a job uses, one for each trainer there.
struct NodeGpus {
  std::string visible;              // CUDA_VISIBLE_DEVICES of all trainers there
  std::vector<std::size_t> places;  // position of each trainer's GPU in `visible`
  std::vector<std::string> keys;    // gpu_key() of each trainer's GPU
  Status libc_status = {};          // check_libc()'s result, for paddle-gpu only
  std::string nccl_warning = {};    // nccl_missing()'s result
};

// kResource: paddle-gpu cannot start on the node, because the C library there is older than it
// needs or is not glibc.
Status check_libc(const ClusterNode& node, const wire::agent::Facts& facts);

// Chooses among the GPUs that a job may use on a node. The first of these that is set lists them:
// CUDA_VISIBLE_DEVICES in `environment` (the job's), the same variable of the node in the cluster
// file, the node's `gpus` there, the node's login environment. kUsage: the node has no such GPU.
Result<NodeGpus> choose_gpus(const ClusterNode& node, const wire::agent::Facts& facts,
                             const std::map<std::string, std::string>& environment,
                             const GpuChoice& choice);

// A warning if no NCCL was found on the node; "" if it was found, or if a variable names the folder
// of the libraries.
std::string nccl_missing(const ClusterNode& node, const wire::agent::Facts& facts,
                         const std::map<std::string, std::string>& environment);

// Chooses GPUs on every node with the trainer role. The result has an entry for each node of the
// cluster. kUsage also if two nodes share one GPU, as nodes on one machine may.
Result<std::vector<NodeGpus>> find_gpus(Context& context, const ClusterSpec& cluster,
                                        const std::map<std::string, std::string>& environment,
                                        const GpuChoice& choice);

// Identifies a GPU under all its names and on all nodes: its UUID, or else its number and the
// node's address. "" if the node shows no GPU with this name.
std::string gpu_key(const wire::agent::Facts& facts, const std::string& address,
                    const std::string& name);
// The names in a list such as the value of CUDA_VISIBLE_DEVICES.
std::vector<std::string> gpu_names(const std::string& list);
// The number that nvidia-smi gives the GPU; the number of GPUs if none has this name.
std::size_t gpu_number(const wire::agent::Facts& facts, const std::string& name);
std::size_t gpu_count(const wire::agent::Facts& facts);
std::vector<std::string> gpu_models(const wire::agent::Facts& facts);  // ordered by their numbers

// "2x NVIDIA H100, 1x NVIDIA T4", or "none"; in JSON a list of their models.
Cell gpus_cell(const wire::agent::Facts& facts);

}  // namespace paddle::cli
