// Brings a job's logs and snapshots home.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct FetchStats {
  std::size_t files = 0, files_fetched = 0;
};

// A folder as it is told to the reader: relative where it is below the current directory, absolute
// in JSON.
std::string shown_path(const Context& context, const std::string& path);

// Into <output>/<job>/{node_<i>/..., pass-0000N/...}; files that are here with the same SHA-256 are
// left alone, a snapshot's MANIFEST arrives last. What a node calls its files cannot leave that
// folder.
Result<FetchStats> fetch_results(ClusterSession& session, const std::string& job,
                                 const std::string& output);

// The same without the snapshots.
Result<FetchStats> fetch_logs(ClusterSession& session, const std::string& job,
                              const std::string& output);

}  // namespace paddle::cli
