// The cluster and the job that a command is for: how they are named on the command line, and how
// they are found on the nodes.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {

struct JobTarget {
  std::string cluster;  // --cluster; "": the current one
  std::string on;       // --on; "": all nodes
  std::string job;      // "": the latest
};

Option job_option(JobTarget& target);    // --job NAME
Option job_argument(JobTarget& target);  // NAME by its place

struct FoundJob {
  ClusterSpec cluster;
  ClusterSession session;  // of the nodes chosen
  std::string name;
};

// Nodes that may be out of reach before the job is chosen: any, or none, or those where nothing of
// the cluster is left.
enum class Missing { kAllowed, kRefused, kRefusedUnlessAbsent };

// Connects to the nodes and chooses the job. kUsage when there is none.
Result<FoundJob> find_job(Context& context, const JobTarget& target, Missing missing);

}  // namespace paddle::cli
