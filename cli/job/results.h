// Logs and snapshots of a job, fetched into its output folder.
#pragma once

#include <filesystem>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct FetchStats {
  std::size_t files = 0, files_fetched = 0;
};

// A path as output shows it: relative where it is below the current directory, absolute in JSON.
std::string shown_path(const Context& context, const std::string& path);

// Makes the folder with its parents; kResource with `hint` where that cannot be done.
Status make_folder(const std::filesystem::path& folder, const std::string& hint);
// The local path of a file that a node names: `name` below `folder`, with its parents made. kData
// for a name that leaves the folder.
Result<std::string> fetch_target(const std::filesystem::path& folder, const std::string& name,
                                 const std::string& hint);

enum class Wanted { kLogsAndSnapshots, kLogs };
// Fetches into <output>/<job>/{node_<i>/..., pass-0000N/...}. Skips files that are here with the
// same SHA-256, and fetches a snapshot's MANIFEST last. No file name from a node leads out of that
// folder.
Result<FetchStats> fetch_results(ClusterSession& session, const std::string& job,
                                 const std::string& output,
                                 Wanted wanted = Wanted::kLogsAndSnapshots);

}  // namespace paddle::cli
