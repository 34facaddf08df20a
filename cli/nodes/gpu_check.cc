#include "cli/nodes/gpu_check.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/console/console.h"
#include "cli/nodes/gpus.h"

namespace paddle::cli {
namespace {

using remote::HostFacts;

constexpr int kDriverMajorMin = 580;  // of CUDA 13's libraries

// Of "535.104.05"; 0 where it has none.
int major_of(const std::string& version) {
  int major = 0;
  (void)std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

// A GPU that a trainer was given for itself.
struct GpuUse {
  std::string job;
  std::string name;  // in CUDA_VISIBLE_DEVICES
  std::string key;
};

std::vector<GpuUse> uses_of(const GpuNode& node) {
  std::vector<GpuUse> uses;
  for (const remote::ProcessStatus& process : node.processes) {
    if (process.state != remote::ProcessState::kRunning) continue;
    const auto value_of = [&](std::string_view name) {
      const auto found = std::ranges::find(process.gpu_variables, name, &remote::Variable::name);
      return found == process.gpu_variables.end() ? std::string() : found->value;
    };
    const std::vector<std::string> visible = gpu_names(value_of("CUDA_VISIBLE_DEVICES"));
    const std::string selected = value_of("FLAGS_selected_gpus");
    std::size_t place = visible.size();
    (void)std::from_chars(selected.data(), selected.data() + selected.size(), place);
    if (node.facts == nullptr || place >= visible.size()) continue;
    const std::string key = gpu_key(*node.facts, node.address, visible[place]);
    if (!key.empty()) uses.push_back({process.job, visible[place], key});
  }
  return uses;
}

class GpuFaultFinder {
 public:
  GpuFaultFinder(const std::vector<GpuNode>& nodes, std::size_t at, bool has_gpu_engine)
      : nodes_(nodes), own_(nodes[at]), facts_(*nodes[at].facts), has_gpu_engine_(has_gpu_engine) {}

  std::vector<GpuFault> find() {
    look_at_names();
    look_for_other_owners();
    if (!facts_.gpus.empty()) {
      look_for_two_jobs();
      look_at_library();
      if (has_gpu_engine_ && own_.node->runs_trainer) look_at_needs();
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

  void look_for_two_jobs() {
    std::map<std::string, std::set<std::string>> jobs;  // by gpu_key
    for (const GpuNode& node : nodes_) {
      for (const GpuUse& use : uses_of(node)) jobs[use.key].insert(use.job);
    }
    std::set<std::string> told;
    for (const GpuUse& use : uses_of(own_)) {
      if (jobs[use.key].size() < 2 || !told.insert(use.key).second) continue;
      faults_.push_back(
          {"gpus",
           fmt::format("trainers of jobs {} share its GPU {}", fmt::join(jobs[use.key], " and "),
                       use.name),
           fmt::format("end one of them, paddlectl stop {}, and give it other GPUs: --gpus",
                       *jobs[use.key].rbegin())});
    }
  }

  void look_at_needs() {
    if (const Status libc = check_libc(*own_.node, facts_); !libc) {
      const std::string name = "node " + own_.node->spec.name + ": ";
      faults_.push_back({"glibc", libc.error().message.substr(name.size()), libc.error().hint});
    }
    const std::string& driver = facts_.gpu_driver;
    if (!driver.empty() && major_of(driver) < kDriverMajorMin) {
      faults_.push_back({"gpu_driver",
                         fmt::format("its driver is {}, and paddle-gpu needs {} or later", driver,
                                     kDriverMajorMin),
                         "install a newer driver, or train there without --gpus"});
    }
    const bool has_own_folder = own_.node->environment.contains("PADDLE_CUDA_LIBRARY_PATH");
    if (facts_.cublas_library.empty() && !has_own_folder) {
      faults_.push_back({"gpu_driver", "it shows no libcublasLt.so.13, which paddle-gpu needs",
                         "install CUDA 13's cuBLAS there (libcublas-13-0, or pip install "
                         "nvidia-cublas), or name its folder: env.PADDLE_CUDA_LIBRARY_PATH of the "
                         "node"});
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
  const bool has_gpu_engine_;
  std::vector<GpuFault> faults_;
};

}  // namespace

std::vector<GpuFault> gpu_faults(const std::vector<GpuNode>& nodes, std::size_t at,
                                 bool has_gpu_engine) {
  return GpuFaultFinder(nodes, at, has_gpu_engine).find();
}

}  // namespace paddle::cli
