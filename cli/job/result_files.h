// The files below a job's output/ on its nodes: snapshots, and what the job's own program saved.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/passes.h"

namespace paddle::cli {

struct ResultFiles {
  // The files below output/, by member. A path that several members have is listed for the one with
  // the lowest trainer. Whole snapshots come from one member, the first that has any.
  std::vector<std::vector<remote::FileEntry>> of_member;  // without hashes
  std::optional<std::size_t> giver;                       // the member that gives whole snapshots
  // By member, the files of whole snapshots that the giver has too.
  std::vector<std::vector<remote::FileEntry>> copies;
  // By member, links and empty folders below output/.
  std::vector<std::vector<remote::FileEntry>> without_content;
  std::vector<std::string> doubled;  // paths outside snapshots that several nodes have
  std::vector<std::string> refused;  // "NAME of node NODE": names that no node may give
  bool all_answered = true;
};

// Snapshots on the nodes that --pass does not choose.
struct LeftSnapshots {
  std::vector<std::string> names;        // by progress
  std::vector<remote::FileEntry> files;  // the files of all these snapshots
};

// Whether the file or a folder above it is hidden: programs may read such files as their settings.
bool is_hidden(const std::string& path);

// Whether a node or a volume may give a file with this name. It may not give logs of nodes, files
// that paddlectl itself writes, or hidden files, which programs may read as their settings.
bool may_be_given(const std::string& path);

// Where snapshots are, as errors and notes name it.
struct SnapshotPlace {
  std::string_view have, they_have, where;
};
constexpr SnapshotPlace kOnNodes = {"the nodes have", "they have", "on the nodes"};
constexpr SnapshotPlace kOnVolume = {"the volume has", "it has", "on the volume"};

// The snapshots that `choice` asks for, of `names`, which are ordered by progress. `by_merit`:
// passes from the best to the worst. kUsage: there is none of a pass that was asked for by number.
Result<std::set<std::string>> choose_snapshots(Context& context, const SnapshotPlace& place,
                                               const std::string& job, const PassChoice& choice,
                                               const std::vector<std::string>& names,
                                               const std::vector<std::uint64_t>& by_merit);
// The passes by the tests in trainer 0's metrics. The pass of the job's file BEST, if any, is the
// first.
std::vector<std::uint64_t> passes_by_merit(const std::vector<MetricsLine>& metrics,
                                           std::string_view best);

// Lists the files on the connected nodes. After an error, `found` contains the files of the other
// nodes. If `giver` is given, snapshots come from that member.
Status list_results(ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, ResultFiles& found,
                    std::optional<std::size_t> giver = {});

// Moves the snapshots that `choice` leaves out from `found` to `left`. kUsage: the nodes have no
// snapshot of a pass that was asked for by number.
Status keep_passes(Context& context, ClusterSession& session, const std::string& job,
                   const std::vector<ProcessOnNode>& processes, const PassChoice& choice,
                   ResultFiles& found, LeftSnapshots& left);

}  // namespace paddle::cli
