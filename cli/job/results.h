// Logs and snapshots of a job, fetched into its output folder.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct FetchStats {
  std::size_t files = 0, files_fetched = 0;
};

// A path as output shows it: relative where it is below the current directory, absolute in JSON.
std::string shown_path(const Context& context, const std::string& path);

// Fetches into <output>/<job>/{node_<i>/..., pass-0000N/...}. Skips files that are here with the
// same SHA-256, and fetches a snapshot's MANIFEST last. No file name from a node leads out of that
// folder.
Result<FetchStats> fetch_results(ClusterSession& session, const std::string& job,
                                 const std::string& output);

// The same without the snapshots.
Result<FetchStats> fetch_logs(ClusterSession& session, const std::string& job,
                              const std::string& output);

}  // namespace paddle::cli
