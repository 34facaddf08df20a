// Data that the workspace's program `prepare` makes in a folder that all nodes see, such as a
// volume of Kubernetes: once for all of them, and without a copy on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"
#include "cli/job/check.h"

namespace paddle::cli {

// kUsage: the nodes share no folder.
Status check_shared_folder(const ClusterSpec& cluster);

// Copies the workspace without its data into a folder of the nodes' shared folder and runs
// `prepare` there, on this node, with SPLIT_COUNT=<trainers>. The folder's name has a hash of these
// files, of the patterns of the data and of the number of trainers: if the program has succeeded
// there, it does not run again. job.toml, and the files that it names, do not count for the hash.
// The network depends on these files, such as the dictionary, so the workspace gets them from the
// node if it lacks them. Nothing in the workspace is replaced.
//
// REQUIRES: check_shared_folder(). Returns the --set items that name the data in that folder.
// kUsage: the workspace has no such program, or its data is elsewhere. kFailed: the program failed;
// the error has its last lines. kData: it made no data, or a file that differs from the one here.
Result<std::vector<std::string>> prepare_data(Context& context, const ClusterSpec& cluster,
                                              std::size_t node, const JobSource& source,
                                              std::size_t trainers);

}  // namespace paddle::cli
