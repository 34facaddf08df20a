// Resuming a job that ended before its last pass: the job, what may have changed since, and the
// snapshot from which it goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/job/settings.h"
#include "remote/push/source.h"

namespace paddle::cli {

// The snapshot from which a job goes on: that of trainer 0's node, a copy of another one, or one
// here.
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

struct PreviousRun {
  std::string job;
  std::uint32_t trainers = 0;             // 0: the nodes have no record of them
  std::optional<std::uint32_t> pservers;  // nothing: likewise
  std::optional<JobSettings> settings = {};
  std::map<std::string, std::string> variables = {};  // of --env, with their values
};

// The job asked for, or the latest. A job asked for may be gone from the nodes, with its results
// here. Ends the processes of one whose start was broken off. kUsage when it still runs, or when
// there is none. `output`: the folder of results.
Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked, const std::string& output);
// kUsage for a change that would leave records out, or train them twice, where the job goes on
// within a pass: `snapshot` is the name of what it goes on from. `workspace`: as typed, or "".
Status check_changes(const std::string& job, const std::string& snapshot,
                     const std::vector<SettingChange>& changes, const std::string& workspace);

// Frees the name of a job whose start was broken off before it had any result: ends its processes
// and removes their records. False for every other job, which it leaves alone.
Result<bool> forget_broken_start(Context& context, const ClusterSpec& cluster,
                                 const std::string& job);

// Pushes it to trainer 0's node, where a damaged one of its name is set aside, and says where the
// job goes on. Returns how many tests the job's metrics have so far.
Result<std::size_t> prepare_to_resume(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes, const JobPlan& plan,
                                      const SnapshotToPush& snapshot);
// Removes the records of ended processes from the nodes, by which a job is found and knows how many
// it had: only when nothing is left to do but to start it.
Status forget_ended_processes(Context& context, const ClusterSpec& cluster,
                              const std::vector<std::size_t>& nodes, const std::string& job);

}  // namespace paddle::cli
