// A job's processes on their nodes: what each runs, with which ports, variables and files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/placement.h"
#include "cli/cluster/ports.h"
#include "cli/job/workspace.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

// A snapshot whose parameters a job starts with: on trainer 0's node, or pushed to it.
struct StartSnapshot {
  std::string remote;                // its folder below root; "": the first of `folders` is pushed
  std::vector<std::string> folders;  // local; the snapshot, then the base if it is a delta
};

// The command of [notify], or of the user's notify.toml.
struct JobNotify {
  config::NotifyConfig config;
  // The files to push: each argument that names one, such as "./notify.sh", and its path here. Only
  // a user's notify.toml has them: the arguments in job.toml name files of the workspace.
  std::map<std::string, std::string> files = {};
};

struct JobRequest {
  std::string job;                          // its name
  std::string engine;                       // below root: "bin/paddle-<hash16>"
  std::string job_toml;                     // config::ResolvedJob::text, for the nodes
  bool resume = false;                      // trainers resume from the newest snapshot
  std::size_t skipped_ports = 0;            // from each node's `port` on; other jobs use them
  std::uint32_t restarts = 0;               // per hour, of a failed process and its peers
  std::uint32_t stall_restarts_after = 60;  // seconds until a hung process has failed; 0: never
  std::map<std::string, std::string> environment = {};  // --env
  std::optional<StartSnapshot> from = {};
  std::string gpu_engine = {};  // for built-in trainers with a GPU each; "": they have none
  std::uint64_t run = 0;        // JobSettings::run
  std::optional<JobNotify> notify = {};
};

// Checks the value of --stall-restarts-after, if given, against that of --restarts.
Status check_stall_limit(std::optional<std::uint32_t> seconds, std::uint32_t restarts);

struct PlannedProcess {
  std::size_t node = 0;    // index in ClusterSpec::nodes
  std::string address;     // pserver: the address that it binds
  std::uint16_t port = 0;  // pserver: first port of its block
  std::string metrics;     // trainer: its file below root
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
  bool trainers_talk = false;    // to each other, so each pair has a key
};

// The ports that plan_job gives its processes. kUsage: some would be above 65535.
Result<JobPorts> ports_of_job(const ClusterSpec& cluster, const JobRequest& request,
                              const Placement& placement, const std::vector<std::string>& addresses,
                              const Workspace& workspace);

// The nodes on the data plane, by index; "" for a node that the placement does not use.
struct NodeNetwork {
  std::vector<std::string> addresses;
  std::vector<std::string> interfaces = {};  // by address; "" or empty: not known
};

// Processes that share an address get successive ports, the pservers first.
Result<JobPlan> plan_job(const ClusterSpec& cluster, const JobRequest& request,
                         const Placement& placement, const NodeNetwork& network,
                         const Workspace& workspace);

}  // namespace paddle::cli
