// Options that several commands share, each with one name, help text and limit, and the job that
// these options name.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/commands/command.h"

namespace paddle::cli {

Option cluster_option(std::string& file);
Option on_option(std::string& nodes);
Option output_option(std::string& folder);
Option workspace_argument(std::string& folder);
Option overrides_option(std::vector<std::string>& overrides);

struct NodeTarget {
  std::string cluster;  // --cluster; "": the current one
  std::string on;       // --on; "": all nodes
};
OptionList node_options(NodeTarget& target);  // --cluster FILE, --on NODES
// Without --on: leaves out the nodes that `up --any` left out and that still cannot be reached, and
// returns and prints their names.
std::vector<std::string> leave_out_as_up_did(Context& context, ClusterSession& session,
                                             const ClusterSpec& cluster, const NodeTarget& target);

// The nodes of --on; without --on, all nodes except those that `up --any` left out, which a note
// names.
Result<std::vector<std::size_t>> choose_nodes(Context& context, const ClusterSpec& cluster,
                                              const std::string& on);

struct JobTarget : NodeTarget {
  std::string job;  // "": the latest
};

// Two ways to name the job; a command has both or neither.
Option job_option(JobTarget& target);    // --job JOB, --name JOB
Option job_argument(JobTarget& target);  // JOB as an argument; after job_option

struct ResultsOptions {
  JobTarget target;
  std::string output = "output";
  std::string passes;  // --pass; "": the last, and the best if its snapshot is kept
};
Option passes_option(ResultsOptions& options);
OptionList results_options(ResultsOptions& options);  // JobTarget's options and --output DIR

struct FoundJob {
  ClusterSpec cluster;
  ClusterSession session;  // the chosen nodes
  std::string name;
};

// The nodes that may be out of reach before the job is chosen: any; any, with a note about those
// that `up --any` left out; none; only nodes that have no folder of the cluster.
enum class Missing { kAllowed, kAllowedIfLeftOut, kRefused, kRefusedUnlessAbsent };

// Connects to the nodes and chooses the job. kUsage: there is none. Without --on, a node that is
// out of reach and has no process of the job is left out, with a note.
Result<FoundJob> find_job(Context& context, const JobTarget& target, Missing missing);

}  // namespace paddle::cli
