// Which node runs what: a pure function of the cluster, the request and the workspace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/workspace/workspace.h"
#include "remote/agent_client.h"

namespace paddle::cli {

struct JobRequest {
  std::string job;             // its name: a folder on the nodes
  std::uint32_t trainers = 0;  // 0: as many as the capacity of the nodes with the role
  std::uint32_t pservers = 0;
  std::string engine;                  // below root: "bin/paddle-<hash16>"
  std::vector<std::string> overrides;  // --set
  bool resume = false;                 // trainers go on from the newest snapshot
  std::size_t first_block = 0;         // blocks of ports of every address that others have
  std::uint32_t restarts = 0;          // of a process that failed, and of all it takes with it
  std::map<std::string, std::string> environment = {};  // --env
};

struct Placement {
  std::vector<std::size_t> pservers;  // node of each pserver
  std::vector<std::size_t> trainers;  // node of each trainer
  std::vector<std::size_t> nodes;     // those used, ascending
};

struct PlannedProcess {
  std::size_t node = 0;  // index in ClusterSpec::nodes
  std::uint32_t index = 0;
  bool pserver = false;
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

// In turns over the nodes with the role, each with as many in a turn as its capacity. kUsage when
// no node has the role.
Result<Placement> place_job(const ClusterSpec& cluster, std::uint32_t trainers,
                            std::uint32_t pservers);

// addresses[i]: data plane address of node i (those not used may be empty). Pservers that share an
// address get successive port blocks.
Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const std::vector<std::string>& addresses,
                         const Workspace& workspace);

std::string job_folder(const std::string& job);                     // "jobs/<job>"
std::string workspace_folder(const std::string& job);               // "jobs/<job>/workspace"
std::string node_folder(const std::string& job, std::size_t node);  // "jobs/<job>/node_<i>"
// Letters, digits, '.', '-' and '_', at most 100: a folder name on nodes. kUsage.
Status check_job_name(const std::string& job);

}  // namespace paddle::cli
