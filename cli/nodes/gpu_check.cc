#include "cli/nodes/gpu_check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/console/console.h"
#include "cli/nodes/gpus.h"

namespace paddle::cli {
namespace {

using remote::HostFacts;

class GpuFaultFinder {
 public:
  GpuFaultFinder(const std::vector<GpuNode>& nodes, std::size_t at)
      : nodes_(nodes), own_(nodes[at]), facts_(*nodes[at].facts) {}

  std::vector<GpuFault> find() {
    look_at_names();
    look_for_other_owners();
    if (!facts_.gpus.empty()) {
      look_at_library();
      compare("gpu_driver", "GPU driver", &HostFacts::gpu_driver);
      compare("nccl_library", "NCCL", &HostFacts::nccl_library);
    }
    return std::move(faults_);
  }

 private:
  void look_at_names() {
    const std::vector<std::string>& names = own_.node->gpus;
    const std::string next = fmt::format(
        "is the driver loaded? paddlectl exec --on {} -- nvidia-smi -L", own_.node->spec.name);
    if (facts_.gpus.size() < names.size()) {
      faults_.push_back({"gpus",
                         fmt::format("the cluster file names {}, the node shows {}",
                                     counted(names.size(), "GPU"), facts_.gpus.size()),
                         next});
      return;
    }
    for (const std::string& name : names) {
      if (gpu_number(facts_.gpus, name) < facts_.gpus.size()) continue;
      faults_.push_back(
          {"gpus", fmt::format("it shows no GPU {}, which the cluster file names", name), next});
    }
  }

  // Only of GPUs that the cluster file names: nodes of one machine may train without any.
  void look_for_other_owners() {
    for (const std::string& name : own_.node->gpus) {
      const std::string key = gpu_key(facts_, own_.address, name);
      for (const GpuNode& other : nodes_) {
        if (&other == &own_ || other.facts == nullptr || key.empty()) continue;
        const bool has_it = std::ranges::any_of(other.node->gpus, [&](const std::string& theirs) {
          return gpu_key(*other.facts, other.address, theirs) == key;
        });
        if (!has_it) continue;
        faults_.push_back({"gpus",
                           fmt::format("its GPU {} is also that of node {}: {}", name,
                                       other.node->spec.name, key),
                           "name each GPU in the `gpus` of one node of the cluster file"});
      }
    }
  }

  void look_at_library() {
    const std::string& driver = facts_.gpu_driver;
    const std::string& library = facts_.cuda_library;
    if (driver.empty() || library.empty() || driver == library) return;
    faults_.push_back(
        {"gpu_driver",
         fmt::format("its driver is {} and its libcuda {}, which cannot use it", driver, library),
         "an update replaced one of them: reboot the node, or load the new driver"});
  }

  // The version that most nodes with GPUs have is right, or the first node's.
  void compare(const char* column, const char* what, std::string HostFacts::*version) {
    std::map<std::string, std::size_t> counts;
    std::string usual;
    const GpuNode* example = nullptr;
    for (const GpuNode& node : nodes_) {
      const bool counts_here = node.facts != nullptr && node.node->runs_trainer &&
                               !node.facts->gpus.empty() && !(node.facts->*version).empty();
      if (counts_here) ++counts[node.facts->*version];
    }
    for (const GpuNode& node : nodes_) {
      if (node.facts == nullptr || !counts.contains(node.facts->*version)) continue;
      if (example != nullptr && counts[node.facts->*version] <= counts[usual]) continue;
      usual = node.facts->*version;
      example = &node;
    }
    const std::string& own = facts_.*version;
    if (example == nullptr || own.empty() || own == usual || !own_.node->runs_trainer) return;
    faults_.push_back({column,
                       fmt::format("its {} is {}, that of node {} {}", what, own,
                                   example->node->spec.name, usual),
                       "install one version on all nodes that train together, or leave this one "
                       "out: --on"});
  }

  const std::vector<GpuNode>& nodes_;
  const GpuNode& own_;
  const HostFacts& facts_;
  std::vector<GpuFault> faults_;
};

}  // namespace

std::vector<GpuFault> gpu_faults(const std::vector<GpuNode>& nodes, std::size_t at) {
  return GpuFaultFinder(nodes, at).find();
}

}  // namespace paddle::cli
