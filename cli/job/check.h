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

// Reads the workspace's job.toml with the overrides, once for all that a command does with it.
// Errors are those of check_workspace and read_job. If data is missing and the workspace has a
// script `prepare`, the hint names it; so does that of check_job.
Result<config::ResolvedJob> resolve_job(const Context& context, const JobSource& source);

// Scans the workspace and divides its data among the placement's trainers. Errors are those of
// scan_workspace, and: kUsage: trainers lack pservers, or the header of a csv file names other
// columns; kData: a trainer has no data file, or a dictionary cannot contain words of texts.
Result<Workspace> check_job(Context& context, const JobSource& source,
                            const config::ResolvedJob& job, const Placement& placement);

// Runs `paddle plan` here and returns its text: the program builds the network and lists what each
// port would hold. It gets the user's file and --set, so that its errors name what was typed.
// kUsage: the network cannot be built. kResource, kFailed: this machine cannot run the program.
Result<std::string> describe_placement(Context& context, const JobSource& source,
                                       const ClusterSpec& cluster, const Placement& placement,
                                       const Workspace& workspace);

}  // namespace paddle::cli
