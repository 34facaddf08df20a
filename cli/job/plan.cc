#include "cli/job/plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/rng.h"
#include "cli/job/folders.h"
#include "cli/logs/metrics_line.h"
#include "cli/nodes/ports.h"
#include "cli/workspace/trainer_environment.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kProcessesMax = 4096;
// As long as trainers wait for each other (engine/client/lanes.h).
constexpr std::uint32_t kLostTrainerGraceSeconds = 600;

// Nodes in turns; a node appears in a turn as often as its capacity. A count of 0 stands for one
// turn of trainers, and for one pserver a node.
Result<std::vector<std::size_t>> round_robin(const ClusterSpec& cluster, bool pserver,
                                             std::uint32_t count) {
  std::vector<std::size_t> turn;
  std::size_t able = 0;  // nodes with the role; the turn begins with each of them once
  for (std::uint32_t taken = 0, last = 1; taken < last; ++taken) {
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      const ClusterNode& node = cluster.nodes[i];
      if (!(pserver ? node.runs_pserver : node.runs_trainer)) continue;
      if (taken < node.capacity && turn.size() < kProcessesMax) turn.push_back(i);
      last = std::max(last, node.capacity);
    }
    if (taken == 0) able = turn.size();
  }
  const char* const role = pserver ? "pserver" : "trainer";
  if (turn.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("no node of cluster '{}' has the role {}", cluster.name, role),
                 fmt::format("add \"{}\" to a node's roles in {}", role, cluster.file)};
  }
  if (count > kProcessesMax) {
    return Error{Errc::kUsage, fmt::format("over {} {}s", kProcessesMax, role), ""};
  }
  std::vector<std::size_t> nodes;
  const std::size_t wanted = count > 0 ? count : pserver ? able : turn.size();
  for (std::size_t i = 0; i < wanted; ++i) nodes.push_back(turn[i % turn.size()]);
  return nodes;
}

// "server.log", then "server-1.log" for the next of the same kind on the node.
std::string numbered(const std::string& stem, const std::string& suffix, std::size_t ordinal) {
  return ordinal == 0 ? stem + suffix : fmt::format("{}-{}{}", stem, ordinal, suffix);
}

std::string job_tag(const std::string& job) {
  return fmt::format("--job_tag={:016x}", stable_hash(job));
}

std::string bracketed(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

struct Planner {
  const ClusterSpec& cluster;
  const JobRequest& request;
  const Placement& placement;
  const std::vector<std::string>& addresses;
  const Workspace& workspace;

  std::string key_flag(const remote::ProcessSpec& spec) const {
    return fmt::format("--key_file={{root}}/{}/keys/{}", job_folder(request.job), spec.name);
  }
  std::string transport_flag() const { return "--transport=" + cluster.transport; }

  remote::ProcessSpec process(const std::string& name, std::size_t node,
                              const std::string& log) const {
    remote::ProcessSpec spec;
    spec.job = request.job;
    spec.name = name;
    spec.program = request.engine;
    spec.directory = workspace_folder(request.job);
    spec.log = node_folder(request.job, node) + "/" + log;
    spec.environment = request.environment;
    std::map<std::string, std::string> of_node = cluster.nodes[node].environment;
    spec.environment.merge(of_node);  // keeps the values of the command line
    spec.restarts = request.restarts;
    spec.trainers = static_cast<std::uint32_t>(placement.trainers.size());
    spec.pservers = static_cast<std::uint32_t>(placement.pservers.size());
    spec.hang_ms = request.restarts > 0 ? std::uint64_t{1000} * request.stall_restarts_after : 0;
    return spec;
  }

  Status add_pservers(JobPlan& plan) const {
    std::map<std::string, std::size_t> on_address;
    std::map<std::size_t, std::size_t> on_node;
    for (std::uint32_t i = 0; i < placement.pservers.size(); ++i) {
      PlannedProcess server;
      server.node = placement.pservers[i];
      server.address = addresses[server.node];
      const ClusterNode& node = cluster.nodes[server.node];
      const std::size_t block = request.first_block + on_address[server.address]++;
      PADDLE_TRY(server.port, block_port(cluster, node, block));
      server.spec = process(fmt::format("pserver-{}", i), server.node,
                            numbered("server", ".log", on_node[server.node]++));
      server.spec.arguments = {
          "pserver",
          fmt::format("--pserver_id={}", i),
          fmt::format("--bind={}", server.address),
          fmt::format("--port={}", server.port),
          fmt::format("--ports_num={}", cluster.ports_num),
          fmt::format("--ports_num_for_sparse={}", cluster.ports_num_for_sparse),
          fmt::format("--num_gradient_servers={}", placement.trainers.size()),
          fmt::format("--metrics={{root}}/{}", metrics_path(server.spec.log)),
          "--epoch={life}",
          job_tag(request.job),
          transport_flag(),
          key_flag(server.spec)};
      if (request.restarts > 0) {
        server.spec.arguments.emplace_back("--lost_trainer_ends_job");
        server.spec.arguments.push_back(
            fmt::format("--lost_trainer_grace={}", kLostTrainerGraceSeconds));
        server.spec.arguments.push_back(
            fmt::format("--cuts={{root}}/{}/cuts/{}", job_folder(request.job), server.spec.name));
      }
      plan.pservers.push_back(std::move(server));
    }
    return {};
  }

  // The GPUs of the `ordinal`th trainer on a node: an equal part of the node's, or one of them
  // where there are at least as many trainers.
  std::string gpus_of(std::size_t node, std::size_t ordinal) const {
    const std::vector<std::string>& gpus = cluster.nodes[node].gpus;
    const auto trainers = static_cast<std::size_t>(std::ranges::count(placement.trainers, node));
    if (trainers >= gpus.size()) return gpus[ordinal % gpus.size()];
    const std::size_t begin = ordinal * gpus.size() / trainers;
    const std::size_t end = (ordinal + 1) * gpus.size() / trainers;
    return fmt::format("{}", fmt::join(gpus.begin() + static_cast<std::ptrdiff_t>(begin),
                                       gpus.begin() + static_cast<std::ptrdiff_t>(end), ","));
  }

  Status add_trainers(JobPlan& plan) const {
    std::vector<std::string> own_endpoints;
    if (!workspace.command.empty()) {
      PADDLE_TRY(own_endpoints, trainer_endpoints(plan));
    }
    std::vector<std::string> endpoints;
    for (const PlannedProcess& server : plan.pservers) {
      endpoints.push_back(fmt::format("{}:{}", bracketed(server.address), server.port));
    }
    std::map<std::size_t, std::size_t> on_node;
    for (std::uint32_t i = 0; i < placement.trainers.size(); ++i) {
      PlannedProcess trainer;
      trainer.node = placement.trainers[i];
      const std::size_t ordinal = on_node[trainer.node]++;
      trainer.spec =
          process(fmt::format("trainer-{}", i), trainer.node, numbered("train", ".log", ordinal));
      if (!cluster.nodes[trainer.node].gpus.empty())
        trainer.spec.environment["CUDA_VISIBLE_DEVICES"] = gpus_of(trainer.node, ordinal);
      trainer.metrics =
          node_folder(request.job, trainer.node) + "/" + numbered("metrics", ".jsonl", ordinal);
      trainer.spec.keeps_memory = request.restarts > 0 && workspace.command.empty();
      trainer.spec.arguments = {
          "train",
          "--config=job.toml",
          fmt::format("--trainer_id={}", i),
          fmt::format("--num_gradient_servers={}", placement.trainers.size()),
          fmt::format("--pservers={}", fmt::join(endpoints, ",")),
          fmt::format("--ports_num={}", cluster.ports_num),
          fmt::format("--ports_num_for_sparse={}", cluster.ports_num_for_sparse),
          fmt::format("--save_dir={{root}}/{}/output", job_folder(request.job)),
          fmt::format("--metrics={{root}}/{}", trainer.metrics),
          "--incarnation={life}",
          request.resume ? "--resume" : "--resume={again}",
          job_tag(request.job),
          transport_flag(),
          key_flag(trainer.spec)};
      if (i == 0 && request.from)
        trainer.spec.arguments.push_back("--init_model_path={root}/" + start_folder());
      const bool is_engine = workspace.command.empty();
      if (is_engine && workspace.snapshot_copies > 1 && i == copying_trainer(placement))
        trainer.spec.arguments.emplace_back("--saves_copy");
      for (const std::string& item : request.overrides)
        trainer.spec.arguments.push_back("--set=" + item);
      if (!workspace.command.empty()) {
        use_own_program(trainer, {i, workspace.trainer_count, "{root}/" + request.engine, endpoints,
                                  own_endpoints});
      }
      plan.trainers.push_back(std::move(trainer));
    }
    return {};
  }

  // Endpoints on which the user's own trainers may listen: ports after the pservers' blocks.
  Result<std::vector<std::string>> trainer_endpoints(const JobPlan& plan) const {
    std::map<std::string, std::size_t> pservers;
    std::map<std::string, std::size_t> trainers;
    for (const PlannedProcess& server : plan.pservers) ++pservers[server.address];
    std::vector<std::string> endpoints;
    for (const std::size_t node : placement.trainers) {
      const std::string& address = addresses[node];
      PADDLE_TRY(const std::uint16_t first,
                 block_port(cluster, cluster.nodes[node], pservers[address]));
      endpoints.push_back(fmt::format("{}:{}", bracketed(address), first + trainers[address]++));
    }
    return endpoints;
  }

  // Replaces `paddle train` by job.toml's [trainer] command, which reads the same from variables.
  void use_own_program(PlannedProcess& trainer, const OwnTrainer& own) const {
    remote::ProcessSpec& spec = trainer.spec;
    spec.environment.merge(trainer_environment(spec.arguments, own));
    spec.program = "";
    spec.arguments = workspace.command;
    spec.any_exit = true;
  }

  // The snapshots to start from keep their names, by which a delta finds the one it is based on.
  std::string pushed_folder(const std::string& local) const {
    return job_folder(request.job) + "/from/" + std::filesystem::path(local).filename().string();
  }
  std::string start_folder() const {
    return request.from->remote.empty() ? pushed_folder(request.from->folders.front())
                                        : request.from->remote;
  }
  void add_start_snapshot(std::vector<remote::PushItem>& items) const {
    std::error_code error;
    for (const std::string& folder : request.from->folders) {
      for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (!entry.is_regular_file(error)) continue;
        items.push_back({entry.path().string(),
                         pushed_folder(folder) + "/" + entry.path().filename().string()});
      }
    }
  }

  // Each node gets the common files and the data of its own trainers; trainer 0's also the test
  // set.
  void add_files(JobPlan& plan) const {
    for (const std::size_t node : placement.nodes) {
      std::set<std::string> files(workspace.common.begin(), workspace.common.end());
      for (std::size_t i = 0; i < placement.trainers.size(); ++i) {
        if (placement.trainers[i] != node) continue;
        files.insert(workspace.trainer_data[i].begin(), workspace.trainer_data[i].end());
        if (i == 0) files.insert(workspace.test.begin(), workspace.test.end());
      }
      NodeFiles pushed;
      pushed.node = node;
      for (const std::string& file : files) {
        pushed.items.push_back({workspace.path + "/" + file,
                                fmt::format("{}/{}", workspace_folder(request.job), file), false});
      }
      for (const auto& [path, target] : workspace.links) {
        pushed.items.push_back(
            {"", fmt::format("{}/{}", workspace_folder(request.job), path), false, target});
      }
      if (request.from && node == placement.trainers.front()) add_start_snapshot(pushed.items);
      plan.files.push_back(std::move(pushed));
    }
  }
};

}  // namespace

Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::uint32_t pservers) {
  Placement placement;
  PADDLE_TRY(placement.pservers, round_robin(cluster, true, pservers));
  PADDLE_TRY(placement.trainers, round_robin(cluster, false, trainers));
  std::set<std::size_t> used(placement.pservers.begin(), placement.pservers.end());
  used.insert(placement.trainers.begin(), placement.trainers.end());
  placement.nodes.assign(used.begin(), used.end());
  return placement;
}

std::optional<std::uint32_t> copying_trainer(const Placement& placement) {
  const auto& nodes = placement.trainers;
  const auto other = std::ranges::find_if(nodes, [&](auto node) { return node != nodes.front(); });
  if (other == nodes.end()) return std::nullopt;
  return static_cast<std::uint32_t>(other - nodes.begin());
}

Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const std::vector<std::string>& addresses,
                         const Workspace& workspace) {
  PADDLE_TRY_STATUS(check_job_name(request.job));
  PADDLE_CHECK(addresses.size() == cluster.nodes.size());
  PADDLE_CHECK(workspace.trainer_data.size() == placement.trainers.size());
  const Planner planner{cluster, request, placement, addresses, workspace};
  JobPlan plan;
  plan.job = request.job;
  PADDLE_TRY_STATUS(planner.add_pservers(plan));
  PADDLE_TRY_STATUS(planner.add_trainers(plan));
  planner.add_files(plan);
  return plan;
}

}  // namespace paddle::cli
