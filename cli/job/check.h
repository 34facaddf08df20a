// Checks of a job, and its placement, before anything is pushed or started.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/job/workspace.h"

namespace paddle::cli {

// The job's folder and the keys of job.toml to override, as given on the command line.
struct JobSource {
  std::string workspace = {};          // relative to Context::directory; "": that folder
  std::vector<std::string> overrides;  // "train.passes=3"
};

// Reads the workspace and divides its data among the placement's trainers. Errors are those of
// read_job and scan_workspace, and: kUsage: trainers lack pservers, or the header of a csv file
// names other columns; kData: a trainer has no data file, or a dictionary cannot contain words of
// texts. If data is missing and the workspace has a script `prepare`, the hint names it.
Result<Workspace> check_job(Context& context, const JobSource& source, const Placement& placement);

// Runs `paddle plan` here and returns its text: the program builds the network and lists what each
// port would hold. kUsage: the network cannot be built. kResource, kFailed: this machine cannot run
// the program.
Result<std::string> describe_placement(Context& context, const JobSource& source,
                                       const ClusterSpec& cluster, const Placement& placement,
                                       const Workspace& workspace);

}  // namespace paddle::cli
