// Logs and snapshots of a job, fetched into its output folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/passes.h"

namespace paddle::cli {

struct FetchStats {
  std::size_t files = 0, files_fetched = 0;
  std::vector<std::string> left;     // snapshots that were not asked for and stay on the nodes
  std::vector<std::string> missing;  // those of them that are not here from an earlier fetch
  std::uint64_t missing_bytes = 0;
};

// A path as output shows it: relative where it is below the current directory, absolute in JSON.
std::string shown_path(const Context& context, const std::string& path);

// Makes a folder at or below `base`, with its parents; kResource with `hint` where that cannot be
// done, kData where there is a link on the way from `base`, or a folder of somebody else: who sent
// the workspace, or may write to the current directory, may have put it there.
Status make_folder(const std::filesystem::path& base, const std::filesystem::path& folder,
                   const std::string& hint);
// Likewise <output>/<job>. Where that is below the current directory, so must all of it be. kAuth
// where others could exchange a folder on the way: nothing is written below it then.
Result<std::filesystem::path> make_output_folder(const Context& context, const std::string& output,
                                                 const std::string& job, const std::string& hint);

// Fetches logs, files that the job's own program saved, and the snapshots of `passes` with those
// they are deltas of, into <output>/<job>/{node_<i>/..., pass-0000N/...}; without `passes` logs
// alone. Says how much before it starts; kResource when the disk here is too small for it. Every
// file is compared with the SHA-256 that its node listed before it gets its name. Skips files that
// are here with the same SHA-256, and fetches a snapshot's MANIFEST last. A file that several nodes
// have comes from the node of the lowest trainer, and a note says so. No file name from a node
// leads out of that folder, into the folder of another node's logs, or to a file of paddlectl's
// own; while a node does not answer, the others replace nothing that is here. What was fetched of
// an ended job is recorded on its nodes. Snapshots come from the node of the lowest trainer that
// has any, or from the member `giver`; a note says so when that is not the node of trainer 0. Of
// several programs that fetch into one folder, on any machine, one does so at a time.
Result<FetchStats> fetch_results(Context& context, ClusterSession& session, const std::string& job,
                                 const std::string& output, const std::optional<PassChoice>& passes,
                                 std::optional<std::size_t> giver = {});
// Says how many snapshots are on the nodes alone, and how to fetch them.
void note_left_snapshots(Context& context, const std::string& job, const std::string& output,
                         const FetchStats& stats);

}  // namespace paddle::cli
