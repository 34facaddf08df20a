// The snapshot from which a job goes on: that of trainer 0's node, a copy of another one, or one
// here.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "remote/push/source.h"

namespace paddle::cli {

struct JobToResume {
  std::string job;
  std::size_t node = 0;         // of trainer 0
  std::string output;           // the folder with what was fetched
  bool has_copies = false;      // other trainers' nodes may have snapshots too
  bool is_own_program = false;  // which alone knows what a whole snapshot is
};

// Without files when the node of trainer 0 has it.
struct SnapshotToPush {
  std::string name;  // "pass-00002"; "": its trainer decides
  std::vector<remote::PushItem> items;
  std::vector<std::string> replaced;  // damaged ones of the node, whose places it and its base take
};
// The newest whole snapshot of trainer 0's node or, with has_copies, that of another trainer's node
// if it has more progress; of the other nodes or of `output` when none of that node is whole. Says
// which it passes over. Contents are read, and not sizes alone, where there is another one to take
// and trainer 0 has ended with kData or has no second one to fall back to. kUsage when there is no
// snapshot, kData when none is whole. Changes nothing on the nodes.
Result<SnapshotToPush> find_snapshot_to_resume(Context& context, const ClusterSpec& cluster,
                                               const std::vector<std::size_t>& nodes,
                                               const JobToResume& resumed);

}  // namespace paddle::cli
