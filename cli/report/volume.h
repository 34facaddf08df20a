// Results of a job in a folder of this machine, such as a mounted volume that its pods wrote to.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/cluster/context.h"
#include "cli/job/passes.h"
#include "cli/job/results.h"

namespace paddle::cli {

struct VolumeJob {
  std::string folder;  // with node_<i>/ and pass-<n>/ in it
  std::string job;
};

// Finds results in `directory`: its own, those in its output/, or those of one of the jobs below
// either. `job`: "" if there is only one. kUsage: none, or several.
Result<VolumeJob> find_on_volume(const std::string& directory, const std::string& job);

// Copies logs, metrics, files that the job's own program saved and the snapshots of `passes` into
// <output>/<job>/, as fetch_results() does from nodes; without `passes` only logs and metrics.
// Leaves out files that are there with the same size and time. Nothing is copied if `from` is that
// folder. Follows no link. kData: a snapshot is damaged, which is copied as it is.
Result<FetchStats> fetch_from_volume(Context& context, const VolumeJob& from,
                                     const std::string& output,
                                     const std::optional<PassChoice>& passes);

// Writes the files from which make_report() makes a report, of processes and machines, into a
// folder that fetch_from_volume() filled. Each node_<i>/ describes itself in processes.jsonl and
// machines.jsonl, or else by its logs and metrics.
Status write_records_of_volume(const std::string& folder);

}  // namespace paddle::cli
