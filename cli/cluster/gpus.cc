#include "cli/cluster/gpus.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "proto/agent.pb.h"

namespace paddle::cli {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr std::uint32_t kNodeGpusMax = 1024;  // limit per node
constexpr const char* kChoiceHint =
    "use --gpus all, --gpus 4 for four on each node, or --gpus 0,2 for these two (for a single "
    "one: --gpus 2,)";

// The glibc that paddle-gpu needs. A test checks that it needs no later version.
constexpr int kGlibcMinorMin = 35;  // the minor version in 2.35

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::uint32_t number_of(const std::string& text) {
  std::uint32_t number = kNodeGpusMax + 1;  // stays if the number is too large
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// CUDA_VISIBLE_DEVICES from the job or the cluster file.
std::optional<std::string> visible_by_user(const ClusterNode& node,
                                           const std::map<std::string, std::string>& environment) {
  for (const auto* const variables : {&environment, &node.environment}) {
    if (const auto found = variables->find(kVisible); found != variables->end())
      return found->second;
  }
  return std::nullopt;
}

Error no_such_gpu(const ClusterNode& node, const std::string& name,
                  const wire::agent::Facts& facts) {
  return {Errc::kUsage,
          fmt::format("node {} has no GPU {}: it shows {}", node.spec.name, name,
                      facts.gpus_size() == 1 ? "GPU 0 only"
                                             : fmt::format("0 to {}", facts.gpus_size() - 1)),
          fmt::format("paddlectl exec --on {} -- nvidia-smi -L", node.spec.name)};
}

// Positions in `names` of the chosen GPUs.
Result<std::vector<std::size_t>> chosen_among(const std::vector<std::string>& names,
                                              const ClusterNode& node,
                                              const wire::agent::Facts& facts,
                                              const GpuChoice& choice) {
  std::vector<std::size_t> places;
  if (choice.names.empty()) {
    const std::size_t wanted = choice.all ? names.size() : choice.count;
    if (wanted > names.size()) {
      return Error{Errc::kUsage,
                   fmt::format("--gpus {0} needs {0} GPUs on each node, but node {1} has {2}",
                               choice.count, node.spec.name, names.size()),
                   "use --gpus all, or choose nodes with enough GPUs: --on"};
    }
    for (std::size_t i = 0; i < wanted; ++i) places.push_back(i);
    return places;
  }
  for (const std::string& name : choice.names) {
    const std::size_t number = gpu_number(facts, name);
    if (number == gpu_count(facts)) return no_such_gpu(node, name, facts);
    const auto found = std::ranges::find_if(
        names, [&](const std::string& other) { return gpu_number(facts, other) == number; });
    if (found == names.end()) {
      return Error{Errc::kUsage,
                   fmt::format("GPU {} of node {} is not available to this job, which can use {}",
                               name, node.spec.name, fmt::join(names, ", ")),
                   "see `gpus` and CUDA_VISIBLE_DEVICES in the cluster file"};
    }
    const auto place = static_cast<std::size_t>(found - names.begin());
    if (std::ranges::find(places, place) != places.end()) {
      return Error{Errc::kUsage, fmt::format("--gpus names GPU {} twice", name), kChoiceHint};
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace

Result<GpuChoice> parse_gpus(const std::string& text) {
  GpuChoice choice;
  choice.all = text == "all";
  if (choice.all) return choice;
  if (is_number(text)) {
    choice.count = number_of(text);
    if (choice.count > 0 && choice.count <= kNodeGpusMax) return choice;
  } else if (text.find(',') != std::string::npos || text.starts_with("GPU-")) {
    choice.names = gpu_names(text);
    const bool good = std::ranges::all_of(choice.names, [](const std::string& name) {
      return is_number(name) || name.starts_with("GPU-");
    });
    if (good && !choice.names.empty()) return choice;
  }
  return Error{Errc::kUsage, fmt::format("--gpus: '{}' is not a GPU selection", text), kChoiceHint};
}

std::vector<std::string> gpu_names(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) {
    name.erase(0, name.find_first_not_of(' '));
    while (name.ends_with(' ')) name.pop_back();
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

std::size_t gpu_count(const wire::agent::Facts& facts) {
  return static_cast<std::size_t>(facts.gpus_size());
}

std::vector<std::string> gpu_models(const wire::agent::Facts& facts) {
  std::vector<std::string> models;
  for (const wire::agent::Gpu& gpu : facts.gpus()) models.push_back(gpu.model());
  return models;
}

std::size_t gpu_number(const wire::agent::Facts& facts, const std::string& name) {
  if (is_number(name)) return std::min<std::size_t>(number_of(name), gpu_count(facts));
  const auto found = std::ranges::find_if(facts.gpus(), [&](const wire::agent::Gpu& gpu) {
    return !name.empty() && gpu.uuid().starts_with(name);
  });
  return static_cast<std::size_t>(found - facts.gpus().begin());
}

std::string gpu_key(const wire::agent::Facts& facts, const std::string& address,
                    const std::string& name) {
  const std::size_t number = gpu_number(facts, name);
  if (number == gpu_count(facts)) return "";
  const std::string& uuid = facts.gpus(static_cast<int>(number)).uuid();
  return uuid.empty() ? fmt::format("number {} at {}", number, address) : uuid;
}

Status check_libc(const ClusterNode& node, const wire::agent::Facts& facts) {
  const std::string& glibc = facts.glibc();
  int minor = 0;
  if (glibc.starts_with("2.")) {
    (void)std::from_chars(glibc.data() + 2, glibc.data() + glibc.size(), minor);
  }
  if (minor >= kGlibcMinorMin) return {};
  const std::string found = glibc.empty() ? "it has no glibc" : "its glibc is " + glibc;
  return Error{Errc::kResource,
               fmt::format("node {}: {}, but paddle-gpu needs 2.{} or later", node.spec.name, found,
                           kGlibcMinorMin),
               fmt::format("train on its CPUs, without --gpus; or leave it out: --on '!{}'; or "
                           "install Debian 12, Ubuntu 22.04 or a later system there",
                           node.spec.name)};
}

std::string nccl_missing(const ClusterNode& node, const wire::agent::Facts& facts,
                         const std::map<std::string, std::string>& environment) {
  constexpr const char* kFolders = "PADDLE_CUDA_LIBRARY_PATH";
  if (!facts.nccl_library().empty() || environment.contains(kFolders) ||
      node.environment.contains(kFolders)) {
    return "";
  }
  return fmt::format(
      "node {} has no libnccl.so.2, with which trainers on several GPUs sum gradients for dense "
      "= \"collective\"; install it (libnccl2, or pip install nvidia-nccl-cu13), or name its "
      "folder: env.{} of the node",
      node.spec.name, kFolders);
}

Result<NodeGpus> choose_gpus(const ClusterNode& node, const wire::agent::Facts& facts,
                             const std::map<std::string, std::string>& environment,
                             const GpuChoice& choice) {
  if (facts.gpus().empty()) {
    return Error{Errc::kUsage, fmt::format("no GPU was found on node {}", node.spec.name),
                 fmt::format("is its driver loaded? paddlectl exec --on {0} -- nvidia-smi; or "
                             "leave it out: --on '!{0}'",
                             node.spec.name)};
  }
  const auto by_user = visible_by_user(node, environment);
  std::vector<std::string> names = by_user ? gpu_names(*by_user) : node.gpus;
  if (by_user && names.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("{} selects no GPU of node {}", kVisible, node.spec.name),
                 "name some GPUs in it, or remove it"};
  }
  if (names.empty()) names = gpu_names(facts.visible_gpus());
  if (names.empty()) {
    for (int i = 0; i < facts.gpus_size(); ++i) names.push_back(std::to_string(i));
  }
  std::set<std::size_t> numbers;
  for (const std::string& name : names) {
    const std::size_t number = gpu_number(facts, name);
    if (number == gpu_count(facts)) return no_such_gpu(node, name, facts);
    if (numbers.insert(number).second) continue;
    return Error{Errc::kUsage,
                 fmt::format("node {}: GPU {} is named twice, but it can have only one trainer",
                             node.spec.name, name),
                 "see `gpus` and CUDA_VISIBLE_DEVICES in the cluster file"};
  }
  NodeGpus found;
  PADDLE_TRY(found.places, chosen_among(names, node, facts, choice));
  for (std::size_t& place : found.places) {
    const std::string& address = node.address.empty() ? facts.address() : node.address;
    found.keys.push_back(gpu_key(facts, address, names[place]));
    if (by_user) continue;  // its places are positions in the user's own list
    found.visible += (found.visible.empty() ? "" : ",") + names[place];
    place = found.keys.size() - 1;
  }
  if (by_user) found.visible = *by_user;
  found.libc_status = check_libc(node, facts);
  found.nccl_warning = nccl_missing(node, facts, environment);
  return found;
}

Result<std::vector<NodeGpus>> find_gpus(Context& context, const ClusterSpec& cluster,
                                        const std::map<std::string, std::string>& environment,
                                        const GpuChoice& choice) {
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    if (cluster.nodes[i].runs_trainer) nodes.push_back(i);
  }
  std::vector<NodeGpus> found(cluster.nodes.size());
  ClusterSession session = ClusterSession::open(context, cluster, nodes);
  PADDLE_TRY_STATUS(session.all_well());
  PADDLE_TRY_STATUS(session.each([&](Member& member) -> Status {
    PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
    PADDLE_TRY(found[member.node],
               choose_gpus(cluster.nodes[member.node], facts, environment, choice));
    return {};
  }));
  std::map<std::string, std::size_t> owners;
  for (const std::size_t node : nodes) {
    for (const std::string& key : found[node].keys) {
      const auto [owner, is_new] = owners.emplace(key, node);
      if (is_new) continue;
      return Error{
          Errc::kUsage,
          fmt::format("nodes {} and {} share one GPU, {}, which can have only one trainer",
                      cluster.nodes[owner->second].spec.name, cluster.nodes[node].spec.name, key),
          "name the `gpus` of each in the cluster file, or choose one of them with --on"};
    }
  }
  return found;
}

Cell gpus_cell(const wire::agent::Facts& facts) {
  const std::vector<std::string> models = gpu_models(facts);
  std::map<std::string, int> counts;
  for (const std::string& model : models) ++counts[model];
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{}x {}", text.empty() ? "" : ", ", count, name);
  return {text.empty() ? "none" : text, Json::list({models.begin(), models.end()})};
}

}  // namespace paddle::cli
