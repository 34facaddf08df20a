#include "cli/job/plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rng.h"
#include "cli/job/folders.h"
#include "cli/job/statistics.h"
#include "cli/job/trainer_environment.h"
#include "cli/watch/metrics_line.h"

namespace paddle::cli {

// The Python module's files: names relative to its folder, and texts. Defined in python_module.cc,
// which cmake/EmbedPython.cmake writes.
extern const std::vector<std::pair<std::string_view, std::string_view>> kPythonModule;

namespace {

// The time for which trainers wait for each other (kPeerDeadline in engine/client/lanes.h).
constexpr std::uint32_t kLostTrainerGraceSeconds = 600;
constexpr std::uint32_t kStallSecondsMin = 3;

// "server.log", then "server-1.log" for the next process of the same kind on the node.
std::string numbered(const std::string& stem, const std::string& suffix, std::size_t ordinal) {
  return ordinal == 0 ? stem + suffix : fmt::format("{}-{}{}", stem, ordinal, suffix);
}

std::string job_tag(const std::string& job) {
  return fmt::format("--job_tag={:016x}", stable_hash(job));
}

std::vector<std::string> endpoints_of(const std::vector<remote::PortRange>& ranges) {
  std::vector<std::string> endpoints;
  endpoints.reserve(ranges.size());
  for (const remote::PortRange& range : ranges)
    endpoints.push_back(endpoint_text(range.address, range.first));
  return endpoints;
}

struct Planner {
  const ClusterSpec& cluster;
  const JobRequest& request;
  const Placement& placement;
  const JobPorts& ports;
  const NodeNetwork& network;
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
    for (const auto& [key, value] : spec.environment)
      spec.sources.emplace(key, remote::VariableSource::kCommandLine);
    for (const auto& [key, value] : cluster.nodes[node].environment) {
      if (spec.environment.emplace(key, value).second)
        spec.sources.emplace(key, remote::VariableSource::kClusterFile);
    }
    spec.restarts = request.restarts;
    spec.trainers = static_cast<std::uint32_t>(placement.trainers.size());
    spec.pservers = static_cast<std::uint32_t>(placement.pservers.size());
    spec.run = request.run;
    spec.hang_ms = request.restarts > 0 ? std::uint64_t{1000} * request.stall_restarts_after : 0;
    return spec;
  }

  // Where a file of the user's notify.toml lies on the nodes, below root.
  std::string notify_file(const std::string& argument) const {
    return job_folder(request.job) + "/notify/" +
           std::filesystem::path(argument).filename().string();
  }

  // How errors of other processes name the processes of the node.
  std::vector<std::string> names_on(std::size_t node) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < placement.trainers.size(); ++i) {
      if (placement.trainers[i] != node) continue;
      names.insert(names.end(), {fmt::format("trainer-{}", i), fmt::format("trainer {}", i)});
    }
    for (std::size_t i = 0; i < placement.pservers.size(); ++i) {
      if (placement.pservers[i] != node) continue;
      names.push_back(fmt::format("heartbeat of pserver {}", i));
      const remote::PortRange& range = ports.pservers[i];
      for (std::uint16_t port = 0; port < range.count; ++port)
        names.push_back(
            endpoint_text(range.address, static_cast<std::uint16_t>(range.first + port)));
    }
    return names;
  }

  // For the first process of a role on another node than the role's first process: how errors name
  // the processes of that node. Others: nothing.
  std::vector<std::string> witness_of(const PlannedProcess& process) const {
    const bool is_trainer = process.spec.name.starts_with("trainer-");
    const std::vector<std::size_t>& nodes = is_trainer ? placement.trainers : placement.pservers;
    const auto other =
        std::ranges::find_if(nodes, [&](std::size_t node) { return node != nodes.front(); });
    const std::string witness =
        fmt::format("{}-{}", is_trainer ? "trainer" : "pserver", other - nodes.begin());
    return process.spec.name == witness ? names_on(nodes.front()) : std::vector<std::string>();
  }

  // The supervisor of trainer 0 reports what concerns the whole job. Trainer 0 and pserver 0 report
  // peers that stopped answering, and their witnesses the loss of their nodes.
  void add_notify(PlannedProcess& process) const {
    if (!request.notify) return;
    const config::NotifyConfig& config = request.notify->config;
    remote::NotifyCommand& notify = process.spec.notify;
    for (const std::string& argument : config.command) {
      const bool is_file = request.notify->files.contains(argument);
      notify.arguments.push_back(is_file ? "{root}/" + notify_file(argument) : argument);
    }
    notify.events = config.events;
    notify.timeout_ms = static_cast<std::uint64_t>(config.timeout.count()) * 1000;
    notify.stalled_ms = static_cast<std::uint64_t>(config.stalled_after.count()) * 1000;
    notify.cluster = cluster.name;
    notify.node = cluster.nodes[process.node].spec.name;
    notify.speaks_for_job = process.spec.name == "trainer-0";
    notify.speaks_for_lost = notify.speaks_for_job || process.spec.name == "pserver-0";
    notify.witness_of = witness_of(process);
  }

  // Dense ports of a pserver; 0 if the trainers keep dense parameters among themselves.
  std::uint16_t dense_ports() const {
    return workspace.has_group || !workspace.tables.empty() ? 0 : cluster.ports_num;
  }

  void add_pservers(JobPlan& plan) const {
    std::map<std::size_t, std::size_t> on_node;
    for (std::uint32_t i = 0; i < placement.pservers.size(); ++i) {
      PlannedProcess server;
      server.node = placement.pservers[i];
      server.address = ports.pservers[i].address;
      server.port = ports.pservers[i].first;
      server.spec = process(fmt::format("pserver-{}", i), server.node,
                            numbered("server", ".log", on_node[server.node]++));
      server.spec.ports = {ports.pservers[i]};
      server.spec.arguments = {
          "pserver",
          fmt::format("--pserver_id={}", i),
          fmt::format("--bind={}", server.address),
          fmt::format("--port={}", server.port),
          fmt::format("--ports_num={}", dense_ports()),
          fmt::format("--ports_num_for_sparse={}", cluster.ports_num_for_sparse),
          fmt::format("--num_gradient_servers={}", placement.trainers.size()),
          fmt::format("--metrics={{root}}/{}", metrics_path(server.spec.log)),
          "--incarnation={incarnation}",
          job_tag(request.job),
          transport_flag(),
          key_flag(server.spec)};
      if (request.restarts > 0) {
        server.spec.arguments.emplace_back("--lost_trainer_ends_job");
        server.spec.arguments.push_back(
            fmt::format("--lost_trainer_grace={}", kLostTrainerGraceSeconds));
        server.spec.arguments.push_back(fmt::format("--savepoints={{root}}/{}/savepoints/{}",
                                                    job_folder(request.job), server.spec.name));
      }
      add_notify(server);
      plan.pservers.push_back(std::move(server));
    }
  }

  std::size_t trainers_on(std::size_t node) const {
    return static_cast<std::size_t>(std::ranges::count(placement.trainers, node));
  }

  // All trainers of a node see the same GPUs, as NCCL needs, and each gets the index of its own
  // GPU. The user's variables take precedence.
  void show_gpus(PlannedProcess& trainer) const {
    const std::vector<std::string>& named = cluster.nodes[trainer.node].gpus;
    const std::string visible = placement.gpus.empty() ? fmt::format("{}", fmt::join(named, ","))
                                                       : placement.gpus[trainer.node].visible;
    if (visible.empty()) return;
    const bool is_ours = trainer.spec.environment.emplace("CUDA_VISIBLE_DEVICES", visible).second;
    if (is_ours && !named.empty())
      trainer.spec.sources.emplace("CUDA_VISIBLE_DEVICES", remote::VariableSource::kClusterFile);
    trainer.spec.defaults.emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");  // nvidia-smi's numbers
  }

  void use_gpu_engine(PlannedProcess& trainer, std::size_t place) const {
    trainer.spec.program = request.gpu_engine;
    if (cluster.nccl_clear) trainer.spec.arguments.emplace_back("--nccl_clear");
    trainer.spec.environment.emplace("PADDLE_INIT_USE_GPU", "1");
    trainer.spec.environment.emplace("FLAGS_selected_gpus", fmt::format("{}", place));
  }

  // For each trainer, the index of its GPU among those that it sees; empty without --gpus.
  std::vector<std::size_t> gpu_places() const {
    std::vector<std::size_t> places;
    std::map<std::size_t, std::size_t> on_node;
    for (const std::size_t node : placement.trainers) {
      if (!placement.gpus.empty()) places.push_back(placement.gpus[node].places[on_node[node]++]);
    }
    return places;
  }

  void add_trainers(JobPlan& plan) const {
    const std::vector<std::string> own_endpoints = endpoints_of(ports.trainers);
    const std::vector<std::string> endpoints = endpoints_of(ports.pservers);
    const std::vector<std::size_t> gpus = gpu_places();
    std::map<std::size_t, std::size_t> on_node;
    for (std::uint32_t i = 0; i < placement.trainers.size(); ++i) {
      PlannedProcess trainer;
      trainer.node = placement.trainers[i];
      const std::size_t ordinal = on_node[trainer.node]++;
      trainer.spec =
          process(fmt::format("trainer-{}", i), trainer.node, numbered("train", ".log", ordinal));
      if (!ports.trainers.empty()) trainer.spec.ports = {ports.trainers[i]};
      if (ports.master && i == 0) trainer.spec.ports.push_back(*ports.master);
      show_gpus(trainer);
      trainer.metrics =
          node_folder(request.job, trainer.node) + "/" + numbered("metrics", ".jsonl", ordinal);
      // A program of the user's own gives the memory to `paddle client`, which uses pservers.
      trainer.spec.keeps_memory =
          request.restarts > 0 && (workspace.command.empty() || !endpoints.empty());
      trainer.spec.arguments = {
          "train",
          fmt::format("--config={}", kJobFile),
          fmt::format("--trainer_id={}", i),
          fmt::format("--num_gradient_servers={}", placement.trainers.size()),
          fmt::format("--save_dir={{root}}/{}/output", job_folder(request.job)),
          fmt::format("--metrics={{root}}/{}", trainer.metrics),
          "--incarnation={incarnation}",
          request.resume ? "--resume" : "--resume={again}",
          job_tag(request.job),
          transport_flag(),
          key_flag(trainer.spec)};
      if (!endpoints.empty()) {
        trainer.spec.arguments.insert(
            trainer.spec.arguments.end(),
            {fmt::format("--pservers={}", fmt::join(endpoints, ",")),
             fmt::format("--ports_num={}", dense_ports()),
             fmt::format("--ports_num_for_sparse={}", cluster.ports_num_for_sparse)});
      }
      if (workspace.trainers_talk()) {
        if (endpoints.empty()) trainer.spec.arguments.emplace_back("--pservers=");
        trainer.spec.arguments.push_back(
            fmt::format("--trainers={}", fmt::join(own_endpoints, ",")));
      }
      if (i == 0 && request.from)
        trainer.spec.arguments.push_back("--init_model_path={root}/" + start_folder());
      if (workspace.lacks_statistics)  // the path is relative to the workspace
        trainer.spec.arguments.push_back(
            fmt::format("--set=data.statistics=../{}", kStatisticsFile));
      const bool is_engine = workspace.command.empty();
      if (is_engine && workspace.snapshot_copies > 1 && i == copying_trainer(placement))
        trainer.spec.arguments.emplace_back("--saves_copy");
      if (!request.gpu_engine.empty()) use_gpu_engine(trainer, gpus[i]);
      if (!workspace.command.empty()) {
        use_own_program(trainer, {.index = i,
                                  .local_index = ordinal,
                                  .local_count = trainers_on(trainer.node),
                                  .trainer_count = workspace.trainer_count,
                                  .engine = "{root}/" + request.engine,
                                  .pservers = endpoints,
                                  .trainers = own_endpoints,
                                  .gpus = gpus,
                                  .master_address = ports.master->address,
                                  .master_port = ports.master->first});
      }
      add_notify(trainer);
      plan.trainers.push_back(std::move(trainer));
    }
  }

  // Replaces `paddle train` by job.toml's [trainer] command, which gets its settings from
  // variables.
  void use_own_program(PlannedProcess& trainer, const OwnTrainer& own) const {
    remote::ProcessSpec& spec = trainer.spec;
    spec.environment.merge(trainer_environment(spec.arguments, own));
    const auto& interfaces = network.interfaces;
    spec.defaults.merge(network_environment(network.addresses[trainer.node],
                                            interfaces.empty() ? "" : interfaces[trainer.node]));
    spec.first_folders.emplace("PYTHONPATH", "{root}/" + python_folder());
    spec.program = "";
    spec.arguments = workspace.command;
    if (!workspace.venv.empty()) {
      // A program without a path, such as python3, is searched there first.
      const std::vector<std::string> within{
          "/bin/sh", "-c",
          R"(PATH="$0/bin:$PATH" VIRTUAL_ENV="$0"; export PATH VIRTUAL_ENV; exec "$@")",
          "{root}/setup/" + workspace.venv};
      spec.arguments.insert(spec.arguments.begin(), within.begin(), within.end());
    }
    spec.any_exit = true;
  }

  // The snapshots to start from keep their names, by which a delta finds its base.
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
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
        if (!entry.is_regular_file(error)) continue;
        const std::string name = entry.path().lexically_relative(folder).string();
        items.push_back({entry.path().string(), pushed_folder(folder) + "/" + name});
      }
    }
  }

  // The folder with the Python module, where programs of the user's own import it.
  std::string python_folder() const { return job_folder(request.job) + "/python"; }
  void add_python_module(std::vector<remote::PushItem>& items) const {
    for (const auto& [name, text] : kPythonModule) {
      items.push_back({"", fmt::format("{}/paddlectl/{}", python_folder(), name)});
      items.back().content = text;
    }
  }

  // Each node gets the common files and the data of its own trainers; trainer 0's node also gets
  // the test set. The job.toml of all nodes is the resolved one, so no process there knows of
  // --set.
  void add_files(JobPlan& plan) const {
    for (const std::size_t node : placement.nodes) {
      std::set<std::string> files(workspace.common.begin(), workspace.common.end());
      files.emplace(kJobFile);
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
        if (file == kJobFile) pushed.items.back().content = request.job_toml;
      }
      for (const auto& [path, target] : workspace.links) {
        if (path == kJobFile) continue;
        pushed.items.push_back(
            {"", fmt::format("{}/{}", workspace_folder(request.job), path), false, target});
      }
      if (request.from && node == placement.trainers.front()) add_start_snapshot(pushed.items);
      if (!workspace.command.empty() && trainers_on(node) > 0) add_python_module(pushed.items);
      if (request.notify) {
        for (const auto& [argument, file] : request.notify->files)
          pushed.items.push_back({file, notify_file(argument)});
      }
      plan.files.push_back(std::move(pushed));
    }
  }
};

}  // namespace

Status check_stall_limit(std::optional<std::uint32_t> seconds, std::uint32_t restarts) {
  if (seconds.value_or(0) == 0) return {};
  if (restarts == 0) {
    return Error{Errc::kUsage, "--stall-restarts-after does nothing without --restarts",
                 "add --restarts N: a hung process is then started again, up to N times an hour"};
  }
  if (*seconds >= kStallSecondsMin) return {};
  return Error{Errc::kUsage,
               fmt::format("--stall-restarts-after {} is too short: a process reports every "
                           "second, and a busy machine may delay the report",
                           *seconds),
               fmt::format("use {} or more, or 0 for never", kStallSecondsMin)};
}

Result<JobPorts> ports_of_job(const ClusterSpec& cluster, const JobRequest& request,
                              const Placement& placement, const std::vector<std::string>& addresses,
                              const Workspace& workspace) {
  const auto listeners =
      workspace.trainers_listen() ? placement.trainers : std::vector<std::size_t>();
  return assign_ports(cluster, placement.pservers, listeners, addresses, request.skipped_ports);
}

Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const NodeNetwork& network,
                         const Workspace& workspace) {
  PADDLE_TRY_STATUS(check_job_name(request.job));
  PADDLE_CHECK(network.addresses.size() == cluster.nodes.size());
  PADDLE_CHECK(workspace.trainer_data.size() == placement.trainers.size());
  PADDLE_TRY(const JobPorts ports,
             ports_of_job(cluster, request, placement, network.addresses, workspace));
  const Planner planner{cluster, request, placement, ports, network, workspace};
  JobPlan plan;
  plan.job = request.job;
  planner.add_pservers(plan);
  planner.add_trainers(plan);
  planner.add_files(plan);
  plan.trainers_talk = plan.pservers.empty() || workspace.trainers_talk();
  return plan;
}

}  // namespace paddle::cli
