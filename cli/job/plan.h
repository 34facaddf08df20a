// The node of each process of a job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/workspace/workspace.h"
#include "remote/agent_client.h"

namespace paddle::cli {

struct Placement {
  std::vector<std::size_t> pservers;  // node of each pserver
  std::vector<std::size_t> trainers;  // node of each trainer
  std::vector<std::size_t> nodes;     // those used, ascending
};

// Round robin over the nodes with the role, each weighted by its capacity. 0 trainers: as many as
// the nodes have capacity; 0 pservers: one a node. kUsage when no node has the role.
Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::uint32_t pservers);

// The trainer that saves copies of trainer 0's snapshots: the first one on another node. Nothing
// where all trainers are on one.
std::optional<std::uint32_t> copying_trainer(const Placement& placement);

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
  std::size_t first_block = 0;              // port blocks of each address that other jobs have
  std::uint32_t restarts = 0;               // of a failed process and of its peers
  std::uint32_t stall_restarts_after = 60;  // seconds; then one that hangs has failed; 0: never
  std::map<std::string, std::string> environment = {};  // --env
  std::optional<StartSnapshot> from = {};
};

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
};

// addresses[i]: data plane address of node i; "" is allowed for a node the placement does not use.
// Pservers that share an address get successive port blocks.
Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const std::vector<std::string>& addresses,
                         const Workspace& workspace);

}  // namespace paddle::cli
