// The files below a job's output/ on its nodes: snapshots, and what the job's own program saved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/passes.h"

namespace paddle::cli {

struct ResultFiles {
  // By member, each path below output/ at one of them: that of the lowest trainer which has it.
  // Snapshots come from one node, the first that has any as a whole.
  std::vector<std::vector<remote::FileEntry>> of_member;  // without hashes
  std::optional<std::size_t> giver;  // the member that gives snapshots as a whole
  // By member, the files of such snapshots that the giver has too.
  std::vector<std::vector<remote::FileEntry>> copies;
  std::vector<std::string> doubled;  // paths outside snapshots that several nodes have
  std::vector<std::string> refused;  // "NAME of node NODE": names that no node may give
  bool all_answered = true;
};

// Snapshots on the nodes that are not chosen.
struct LeftSnapshots {
  std::vector<std::string> names;        // by progress
  std::vector<remote::FileEntry> files;  // of all of them
};

// Of a file, or of a folder on the way to it: programs obey such files.
bool is_hidden(const std::string& path);

// Asks the connected nodes. After an error `found` has the files of the others. Snapshots are those
// of the member `giver`, where one is named.
Status list_results(ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, ResultFiles& found,
                    std::optional<std::size_t> giver = {});

// Moves the snapshots that `choice` leaves out from `found` to `left`. kUsage when the nodes have
// none of a pass that was asked for by its number.
Status keep_passes(Context& context, ClusterSession& session, const std::string& job,
                   const std::vector<ProcessOnNode>& processes, const PassChoice& choice,
                   ResultFiles& found, LeftSnapshots& left);

}  // namespace paddle::cli
