// Resumes a job that ended before its last pass: finds the job, what may have changed since, and
// the snapshot to continue from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/job/settings.h"
#include "remote/client/push_source.h"

namespace paddle::cli {

// A job for which find_snapshot_to_resume() chooses a snapshot: one on the node of trainer 0, a
// copy on another node, or one on this machine.
struct JobToResume {
  std::string job;
  std::size_t node = 0;         // node of trainer 0
  std::string output;           // folder with fetched results
  bool has_copies = false;      // other trainers' nodes may have snapshots too
  bool is_own_program = false;  // only that program can check its snapshots
};

// The chosen snapshot. Without items if the node of trainer 0 has it.
struct SnapshotToPush {
  std::string name;  // "pass-00002"; "": the trainer decides
  std::vector<remote::PushItem> items;
  std::vector<std::string> replaced;  // damaged ones on the node, which it and its base replace
};
// The newest whole snapshot on the node of trainer 0 or, with has_copies, on another trainer's node
// if that has more progress. If that node has no whole one: a snapshot of the other nodes or of
// `output`. Prints which snapshots it passes over. Checks only the sizes of files, but also reads
// their contents if there is an alternative and trainer 0 ended with kData or its node has no
// second snapshot. kUsage: there is no snapshot. kData: none is whole. Changes nothing on the
// nodes.
Result<SnapshotToPush> find_snapshot_to_resume(Context& context, const ClusterSpec& cluster,
                                               const std::vector<std::size_t>& nodes,
                                               const JobToResume& resumed);

struct PreviousRun {
  std::string job;
  std::uint32_t trainers = 0;                     // 0: the nodes have no record of them
  std::optional<std::uint32_t> pservers;          // nothing: no record either
  std::optional<JobSettings> settings = {};       // those to continue with
  std::optional<JobSettings> settings_here = {};  // from the output folder; no node wrote them
  std::map<std::string, NodeVariable> variables = {};
};

// Finds the job `asked`, or the latest job. A job that was asked for may be gone from the nodes,
// with its results here. If its start was broken off, ends its processes, but not with is_dry_run.
// kUsage: the job still runs, or there is none. `output`: the folder of results. kAuth or kData:
// other users may write there. kFailed: the nodes disagree on the settings.
Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked, const std::string& output,
                                      bool is_dry_run = false);
// kUsage: a change would leave records out or train them twice, because the job continues within a
// pass. `snapshot`: the name of the snapshot to continue from. `workspace`: as typed, or "".
Status check_changes(const std::string& job, const std::string& snapshot,
                     const std::vector<SettingChange>& changes, const std::string& workspace);

// Frees the name of a job whose start was broken off before it had any result: ends its processes
// and removes their records. Returns false for every other job, and changes nothing.
Result<bool> forget_broken_start(Context& context, const ClusterSpec& cluster,
                                 const std::string& job);

// Pushes `snapshot` to trainer 0's node, renames damaged snapshots there that it replaces, and
// prints where the job continues. Returns the number of tests in the job's metrics so far.
Result<std::size_t> prepare_to_resume(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes, const JobPlan& plan,
                                      const SnapshotToPush& snapshot);
// Removes the records of ended processes from the nodes, and the last run's settings from nodes
// that the plan leaves out. A job is found by these records, and they have its number of processes,
// so this is called only right before the job starts again.
Status forget_last_run(Context& context, const ClusterSpec& cluster,
                       const std::vector<std::size_t>& nodes, const JobPlan& plan);

}  // namespace paddle::cli
