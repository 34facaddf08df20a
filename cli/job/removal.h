// The jobs that `rm` and `teardown` would remove from the nodes, and the user's consent.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// The part of a job that is on one node.
struct JobPart {
  std::size_t member = 0;
  std::vector<std::string> running;    // processes
  std::vector<std::string> unfetched;  // the newest snapshot and files of the job's own program
  std::uint64_t unfetched_bytes = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};
struct JobOnNodes {
  std::string job;
  std::vector<JobPart> parts;  // by node
  bool is_running() const;
  bool is_unfetched() const;
};

// Every job on the connected nodes, by name. The error names connected nodes that did not answer.
Status list_jobs_on_nodes(ClusterSession& session, std::vector<JobOnNodes>& jobs);

// "job-1: trainer-0 runs on n-0; pass-00002 on n-0 (1.2 MB) was never fetched"
std::string describe_loss(ClusterSession& session, const JobOnNodes& job);
// A row for each node of each job.
Table removal_table(ClusterSession& session, const std::vector<JobOnNodes>& jobs);

// The flags of `rm` and `teardown`.
struct RemovalConsent {
  bool yes = false;      // do not ask
  bool discard = false;  // running jobs and unfetched results may go
  bool dry_run = false;
};
// OK if the jobs may be removed. Asks on a terminal, where a yes counts as --yes and --discard.
// kUsage: names what would be lost. `keeps_results`: the command leaves snapshots on the nodes.
Status ask_for_consent(Context& context, ClusterSession& session,
                       const std::vector<JobOnNodes>& jobs, const RemovalConsent& consent,
                       bool keeps_results);

}  // namespace paddle::cli
