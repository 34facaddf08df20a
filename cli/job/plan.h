// The processes and files of a job: a pure function of cluster, request, placement and workspace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/job/placement.h"
#include "cli/workspace/workspace.h"
#include "remote/agent_client.h"

namespace paddle::cli {

struct JobRequest {
  std::string job;             // its name
  std::uint32_t trainers = 0;  // as of place_job
  std::uint32_t pservers = 0;
  std::string engine;                  // below root: "bin/paddle-<hash16>"
  std::vector<std::string> overrides;  // --set
  bool resume = false;                 // trainers resume from the newest snapshot
  std::size_t first_block = 0;         // port blocks of each address that other jobs have
  std::uint32_t restarts = 0;          // of a failed process and of its peers
  std::map<std::string, std::string> environment = {};  // --env
};

struct PlannedProcess {
  std::size_t node = 0;  // index in ClusterSpec::nodes
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

// addresses[i]: data plane address of node i; "" is allowed for a node the placement does not use.
// Pservers that share an address get successive port blocks.
Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const std::vector<std::string>& addresses,
                         const Workspace& workspace);

}  // namespace paddle::cli
