// Checks of a job, and its placement, before anything is pushed or started.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

// The job's folder and the keys of job.toml to override, as the command line has them.
struct JobSource {
  std::string workspace = {};          // relative to Context::directory; "": that one
  std::vector<std::string> overrides;  // "train.passes=3"
};

// Reads the workspace and divides its data among the placement's trainers. Errors are those of
// read_job and scan_workspace, kUsage for trainers that lack pservers and for a csv file whose
// header names other columns, and kData for a trainer without a data file and for a dictionary that
// words of texts cannot be in; where data is missing and the workspace has a script `prepare`, the
// hint names it.
Result<Workspace> check_job(Context& context, const JobSource& source, const Placement& placement);

// The plan printed by `paddle plan`, run here: it builds the network and says which port would hold
// what. kUsage for a network that cannot be built; kResource and kFailed when this machine cannot
// run the program.
Result<std::string> describe_placement(Context& context, const JobSource& source,
                                       const ClusterSpec& cluster, const Placement& placement,
                                       const Workspace& workspace);

}  // namespace paddle::cli
