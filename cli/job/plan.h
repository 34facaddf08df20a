// A job's processes on their nodes: what each runs, with which ports, variables and files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/nodes/placement.h"
#include "cli/nodes/ports.h"
#include "cli/workspace/workspace.h"
#include "remote/agent_client.h"

namespace paddle::cli {

// A snapshot whose parameters a job starts with: on trainer 0's node, or pushed to it.
struct StartSnapshot {
  std::string remote;                // its folder below root; "": it is the first of `folders`
  std::vector<std::string> folders;  // local, with the snapshot that it is a delta of
};

struct JobRequest {
  std::string job;                          // its name
  std::string engine;                       // below root: "bin/paddle-<hash16>"
  std::vector<std::string> overrides;       // --set
  bool resume = false;                      // trainers resume from the newest snapshot
  std::size_t skipped_ports = 0;            // of each node from its `port` on: other jobs have them
  std::uint32_t restarts = 0;               // of a failed process and of its peers
  std::uint32_t stall_restarts_after = 60;  // seconds; then one that hangs has failed; 0: never
  std::map<std::string, std::string> environment = {};  // --env
  std::optional<StartSnapshot> from = {};
  std::string gpu_engine = {};  // of built-in trainers, which then have a GPU each; "": none have
  std::uint64_t run = 0;        // JobSettings::run
};

// The value of --stall-restarts-after, where it is given, beside that of --restarts.
Status check_stall_limit(std::optional<std::uint32_t> seconds, std::uint32_t restarts);

struct PlannedProcess {
  std::size_t node = 0;    // index in ClusterSpec::nodes
  std::string address;     // pserver: where it binds
  std::uint16_t port = 0;  // pserver: first of its block
  std::string metrics;     // trainer: below root
  remote::ProcessSpec spec;
};

struct NodeFiles {
  std::size_t node = 0;
  std::vector<remote::PushItem> items;
};

struct JobPlan {
  std::string job;
  std::vector<PlannedProcess> pservers;
  std::vector<PlannedProcess> trainers;
  std::vector<NodeFiles> files;  // one for each node used
  bool trainers_talk = false;    // to each other, and so have keys for their pairs
};

// The ports that plan_job gives its processes; kUsage when some would lie above 65535.
Result<JobPorts> ports_of_job(const ClusterSpec& cluster, const JobRequest& request,
                              const Placement& placement, const std::vector<std::string>& addresses,
                              const Workspace& workspace);

// The nodes on the data plane, by their index; "" for one that the placement does not use.
struct NodeNetwork {
  std::vector<std::string> addresses;
  std::vector<std::string> interfaces = {};  // of the addresses; "", or none at all: not known
};

// Processes that share an address get successive ports, the pservers first.
Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const NodeNetwork& network,
                         const Workspace& workspace);

}  // namespace paddle::cli
